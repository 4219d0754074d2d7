#include "worker/runner_process.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "lcab/v1/runner.pb.h"

namespace lcab::worker {
namespace {

constexpr absl::Duration kSpawnTimeout = absl::Seconds(30);
constexpr absl::Duration kGiveUpInterval = absl::Milliseconds(50);
constexpr absl::Duration kShutdownTimeout = absl::Seconds(2);
constexpr size_t kReadBytes = 64 << 10;
// What an idle runner printed belongs to no trial.
constexpr size_t kStaleOutputBytes = 1 << 20;

// Asks an idle runner to end; its destructor sees to those that do not.
void AskToEnd(RunnerProcess& runner) {
  v1::ToRunner message;
  message.set_shutdown(true);
  runner.channel().Write(message, absl::Now() + absl::Milliseconds(100)).IgnoreError();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunnerProcess>> RunnerProcess::Start(
    const std::string& program, const std::vector<std::string>& arguments) {
  absl::StatusOr<std::pair<FileDescriptor, FileDescriptor>> channel = MakeChannelPair();
  if (!channel.ok()) return channel.status();
  std::array<int, 2> pipe_fds;
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot make a pipe for a runner's output: {}", std::strerror(errno)));
  }
  FileDescriptor output(pipe_fds[0]);
  const FileDescriptor child_output(pipe_fds[1]);
  // Ours alone: the child's end stays blocking, as programs expect of their stderr.
  fcntl(output.get(), F_SETFL, O_NONBLOCK);

  ChildOptions child{.program = program,
                     .arguments = {"--fd", std::to_string(ChildProcess::kChannelFd)},
                     .output_fd = child_output.get(),
                     .channel_fd = channel->second.get()};
  child.arguments.insert(child.arguments.end(), arguments.begin(), arguments.end());
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Spawn(child);
  if (!process.ok()) return process.status();
  return std::unique_ptr<RunnerProcess>(
      new RunnerProcess(std::move(channel->first), std::move(output), *std::move(process)));
}

RunnerProcess::RunnerProcess(FileDescriptor channel, FileDescriptor output,
                             std::unique_ptr<ChildProcess> process)
    : channel_(std::move(channel)), output_(std::move(output)), process_(std::move(process)) {}

std::string RunnerProcess::ReadOutput(size_t most) {
  std::string text;
  while (output_.valid() && text.size() < most) {
    const size_t before = text.size();
    text.resize(before + std::min(kReadBytes, most - before));
    const ssize_t count = read(output_.get(), text.data() + before, text.size() - before);
    const int error = errno;
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0 || (count < 0 && error == EINTR)) continue;
    if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) break;
    output_.Close();
  }
  return text;
}

RunnerPool::RunnerPool(RunnerPoolOptions options)
    : options_(std::move(options)), spawner_([this] { Spawn(); }) {}

RunnerPool::~RunnerPool() {
  std::map<std::string, std::vector<std::unique_ptr<RunnerProcess>>> idle;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    idle.swap(idle_);
  }
  wake_.notify_all();
  for (auto& [device, runners] : idle) {
    for (auto& runner : runners) AskToEnd(*runner);
  }
  const absl::Time deadline = absl::Now() + kShutdownTimeout;
  for (auto& [device, runners] : idle) {
    for (auto& runner : runners) runner->process().Reap(deadline).IgnoreError();
  }
  idle.clear();
  spawner_.join();
}

void RunnerPool::Spawn() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !requests_.empty(); });
    if (requests_.empty()) return;
    std::promise<Started> request = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    Started runner = RunnerProcess::Start(options_.program, options_.arguments);
    lock.lock();
    ++started_;  // before whoever asked goes on
    request.set_value(std::move(runner));
  }
}

absl::StatusOr<std::unique_ptr<RunnerProcess>> RunnerPool::Acquire(
    const std::string& device, const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  for (std::vector<std::unique_ptr<RunnerProcess>>& idle = idle_[device]; !idle.empty();) {
    std::unique_ptr<RunnerProcess> runner = std::move(idle.back());
    idle.pop_back();
    if (runner->process().TryReap().has_value()) continue;  // it died while nobody looked
    lock.unlock();
    runner->ReadOutput(kStaleOutputBytes);
    return runner;
  }
  if (stopping_) return absl::CancelledError("the worker is stopping");
  std::future<Started> started = requests_.emplace_back().get_future();
  lock.unlock();
  wake_.notify_all();
  const absl::Time deadline = absl::Now() + kSpawnTimeout;
  while (started.wait_for(absl::ToChronoNanoseconds(kGiveUpInterval)) !=
         std::future_status::ready) {
    // One that starts after this is killed with the promise that holds it.
    if (give_up != nullptr && give_up()) {
      return absl::CancelledError("it is not needed any more");
    }
    if (absl::Now() < deadline) continue;
    return absl::DeadlineExceededError(fmt::format("{} did not start within {}", options_.program,
                                                   absl::FormatDuration(kSpawnTimeout)));
  }
  return started.get();
}

void RunnerPool::Release(const std::string& device, std::unique_ptr<RunnerProcess> runner) {
  std::unique_ptr<RunnerProcess> surplus;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::unique_ptr<RunnerProcess>>& idle = idle_[device];
    if (!stopping_ && static_cast<int>(idle.size()) < options_.idle_per_device) {
      idle.push_back(std::move(runner));
    } else {
      surplus = std::move(runner);
    }
  }
  if (surplus != nullptr) {
    AskToEnd(*surplus);
    surplus->process().Reap(absl::Now() + kShutdownTimeout).IgnoreError();
  }
}

int64_t RunnerPool::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

int RunnerPool::idle() const {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const auto& [device, runners] : idle_) count += static_cast<int>(runners.size());
  return count;
}

}  // namespace lcab::worker
