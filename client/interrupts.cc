#include "client/interrupts.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace lcab::client {
namespace {

// How soon the thread notices that it is not needed any more.
constexpr absl::Duration kTurn = absl::Milliseconds(50);

}  // namespace

Interrupts::Interrupts() : thread_([this] { Watch(); }) {}

Interrupts::~Interrupts() {
  stopping_ = true;
  thread_.join();
}

void Interrupts::BeforeTheEnd(std::function<void()> last, std::string words) {
  const std::lock_guard lock(mutex_);
  last_ = std::move(last);
  words_ = std::move(words);
}

void Interrupts::EndNow(ExitCode code) {
  const std::lock_guard lock(mutex_);
  if (last_) last_();
  std::_Exit(static_cast<int>(code));
}

void Interrupts::Watch() {
  while (!stopping_) {
    if (signals_.Wait(kTurn) == 0 || ++count_ < 2) continue;
    std::string words;
    {
      const std::lock_guard lock(mutex_);
      words = "\n" + words_;
    }
    // Not through a stream: another thread may be in the midst of writing to it. That nobody reads
    // it changes nothing.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, words.data(), words.size());
    EndNow(ExitCode::kInterrupted);
  }
}

}  // namespace lcab::client
