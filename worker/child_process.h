// A child process in a group of its own, which does not outlive this process and leaves nothing
// behind: when it ends, what is left of its group is killed with it.

#ifndef LCAB_WORKER_CHILD_PROCESS_H_
#define LCAB_WORKER_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/file_descriptor.h"

namespace lcab::worker {

// How a process ended: by a signal, or with an exit code.
struct ProcessEnd {
  int signal = 0;  // 0: it exited
  int exit_code = 0;
};

// "SIGSEGV", or "signal 99" for one without a name.
std::string SignalName(int signal);
// "was killed by SIGSEGV (signal 11)", "exited with code 3".
std::string Describe(const ProcessEnd& end);

struct ChildOptions {
  std::string program;
  std::vector<std::string> arguments;  // without the program's name
  int output_fd = -1;                  // becomes its stdout and stderr
  int channel_fd = -1;                 // becomes its descriptor kChannelFd
};

class ChildProcess {
 public:
  static constexpr int kChannelFd = 3;

  // The child is killed when the *thread* that calls this ends (PR_SET_PDEATHSIG), so call it from
  // one that lives as long as the child may. NotFound or PermissionDenied name the program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(const ChildOptions& options);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // Kills the group and waits, for some seconds after the first SIGKILL at most: of many that do
  // not die, each has had the same time.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Readable, for poll(), once the process has ended.
  int exit_fd() const { return exit_fd_.get(); }
  // To the whole group. No effect once the process has been reaped.
  void Signal(int signal);
  // How it ended, if it has: kills the rest of its group and reaps it.
  std::optional<ProcessEnd> TryReap();
  // The same, waiting. DeadlineExceeded when it has not ended in time.
  absl::StatusOr<ProcessEnd> Reap(absl::Time deadline);

 private:
  ChildProcess(pid_t pid, FileDescriptor exit_fd) : pid_(pid), exit_fd_(std::move(exit_fd)) {}

  pid_t pid_;
  FileDescriptor exit_fd_;
  std::optional<ProcessEnd> end_;
  std::optional<absl::Time> killed_;  // when SIGKILL was first sent
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_CHILD_PROCESS_H_
