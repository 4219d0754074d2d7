// A rendezvous among threads of one process.

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cp/transport.h"
#include "fmt/format.h"

namespace lcab::cp {

struct LocalRendezvous::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string, std::less<>> values;
  std::optional<std::string> abort_reason;
};

LocalRendezvous::LocalRendezvous() : state_(std::make_unique<State>()) {}
LocalRendezvous::~LocalRendezvous() = default;

absl::Status LocalRendezvous::Put(std::string_view key, std::string_view value) {
  const std::lock_guard lock(state_->mutex);
  const auto [at, added] = state_->values.try_emplace(std::string(key), value);
  if (!added && at->second != value) {
    return absl::AlreadyExistsError(fmt::format("rendezvous key '{}' holds another value", key));
  }
  state_->changed.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalRendezvous::Get(std::string_view key, absl::Time deadline) {
  std::unique_lock lock(state_->mutex);
  const auto ready = [&] {
    return state_->abort_reason.has_value() || state_->values.find(key) != state_->values.end();
  };
  state_->changed.wait_until(lock, absl::ToChronoTime(deadline), ready);
  if (state_->abort_reason) return absl::AbortedError(*state_->abort_reason);
  const auto found = state_->values.find(key);
  if (found != state_->values.end()) return found->second;
  return absl::DeadlineExceededError(fmt::format("nobody put the rendezvous key '{}'", key));
}

void LocalRendezvous::Abort(std::string_view reason) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->abort_reason) state_->abort_reason = reason;
  state_->changed.notify_all();
}

}  // namespace lcab::cp
