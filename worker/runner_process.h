// A runner as its worker holds it: the process, the channel to it, and the pipe of what it prints.
// The pool keeps runners warm between assignments and starts new ones.

#ifndef LCAB_WORKER_RUNNER_PROCESS_H_
#define LCAB_WORKER_RUNNER_PROCESS_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/channel.h"
#include "worker/child_process.h"
#include "worker/file_descriptor.h"

namespace lcab::worker {

class RunnerProcess {
 public:
  // See ChildProcess::Spawn for the thread to call this from.
  static absl::StatusOr<std::unique_ptr<RunnerProcess>> Start(
      const std::string& program, const std::vector<std::string>& arguments);

  Channel& channel() { return channel_; }
  ChildProcess& process() { return *process_; }
  int output_fd() const { return output_.get(); }
  // What it has printed and nobody has read, at most `most` bytes, without waiting. Closes the pipe
  // at its end.
  std::string ReadOutput(size_t most);

 private:
  RunnerProcess(FileDescriptor channel, FileDescriptor output,
                std::unique_ptr<ChildProcess> process);

  Channel channel_;
  FileDescriptor output_;
  std::unique_ptr<ChildProcess> process_;
};

struct RunnerPoolOptions {
  std::string program;                 // path of lcab-runner
  std::vector<std::string> arguments;  // besides the channel's
  int idle_per_device = 1;             // runners kept warm for one device
};

// Thread-safe.
class RunnerPool {
 public:
  explicit RunnerPool(RunnerPoolOptions options);
  RunnerPool(const RunnerPool&) = delete;
  RunnerPool& operator=(const RunnerPool&) = delete;
  ~RunnerPool();  // ends idle runners; those that are out must have come back

  // A warm runner of that device, else a new one. The status says why none can be started;
  // Cancelled soon after `give_up` says so, which is asked now and then.
  absl::StatusOr<std::unique_ptr<RunnerProcess>> Acquire(
      const std::string& device, const std::function<bool()>& give_up = nullptr);
  // Takes back a runner that has ended its cohort and may be used again.
  void Release(const std::string& device, std::unique_ptr<RunnerProcess> runner);
  // Processes started so far.
  int64_t started() const;
  int idle() const;

 private:
  using Started = absl::StatusOr<std::unique_ptr<RunnerProcess>>;
  void Spawn();

  const RunnerPoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<std::promise<Started>> requests_;
  std::map<std::string, std::vector<std::unique_ptr<RunnerProcess>>> idle_;
  int64_t started_ = 0;
  // Forks all runners: they die with this thread, which lives as long as the pool.
  std::thread spawner_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_RUNNER_PROCESS_H_
