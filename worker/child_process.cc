#include "worker/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"

namespace lcab::worker {
namespace {

// Descriptors are moved above those that the child gives a meaning to, so that moving one into
// place cannot overwrite another.
constexpr int kFirstFreeFd = 10;
// When memory runs out, the kernel is to choose a runner, not its worker.
constexpr char kOomScore[] = "500";
// SIGKILL leaves a process only for as long as the kernel is busy in it.
constexpr absl::Duration kReapTimeout = absl::Seconds(10);

absl::Status FromErrno(const std::string& what, int error) {
  const std::string text = fmt::format("{}: {}", what, std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(text);
  }
}

FileDescriptor Above(int fd) { return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd)); }

struct ChildFds {
  int null, output, channel, error;
};

// Between fork and exec: only async-signal-safe calls, no allocation.
[[noreturn]] void RunChild(const char* program, char* const* arguments, pid_t parent,
                           const ChildFds& fds) {
  const auto fail = [&fds] {
    const int error = errno;
    // Nobody is left to tell when this fails.
    [[maybe_unused]] const ssize_t written = write(fds.error, &error, sizeof(error));
    _exit(127);
  };
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  // The parent may have died before the line above.
  if (getppid() != parent) _exit(127);
  if (dup2(fds.null, 0) < 0 || dup2(fds.output, 1) < 0 || dup2(fds.output, 2) < 0) fail();
  if (fds.channel >= 0 && dup2(fds.channel, ChildProcess::kChannelFd) < 0) fail();
  // What libraries opened without O_CLOEXEC does not reach the child either. (Old kernels refuse;
  // then the descriptors that are ours are closed by their own flags.)
  syscall(SYS_close_range, ChildProcess::kChannelFd + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  if (fds.channel < 0) fcntl(ChildProcess::kChannelFd, F_SETFD, FD_CLOEXEC);
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    [[maybe_unused]] const ssize_t written = write(score, kOomScore, sizeof(kOomScore) - 1);
    close(score);
  }
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  execv(program, arguments);
  fail();
  _exit(127);
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string Describe(const ProcessEnd& end) {
  if (end.signal == 0) return fmt::format("exited with code {}", end.exit_code);
  return fmt::format("was killed by {} (signal {})", SignalName(end.signal), end.signal);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(const ChildOptions& options) {
  const FileDescriptor null_low(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor null = Above(null_low.get());
  const FileDescriptor output = Above(options.output_fd);
  const FileDescriptor channel =
      options.channel_fd < 0 ? FileDescriptor() : Above(options.channel_fd);
  std::array<int, 2> pipe_fds;
  if (!null.valid() || !output.valid() || (options.channel_fd >= 0 && !channel.valid()) ||
      pipe2(pipe_fds.data(), O_CLOEXEC) != 0) {
    return FromErrno("cannot open what a runner needs", errno);
  }
  const FileDescriptor error_read(pipe_fds[0]);
  FileDescriptor error_low(pipe_fds[1]);
  FileDescriptor error_write = Above(error_low.get());
  error_low.Close();

  std::vector<std::string> words = {options.program};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return FromErrno(fmt::format("cannot start {}", options.program), errno);
  if (pid == 0) {
    RunChild(options.program.c_str(), pointers.data(), parent,
             {null.get(), output.get(), channel.get(), error_write.get()});
  }
  setpgid(pid, pid);  // also here: whoever comes first
  error_write.Close();
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  const int pidfd_error = errno;
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, FileDescriptor(pidfd)));
  if (pidfd < 0) return FromErrno("pidfd_open (it needs Linux 5.3)", pidfd_error);

  // Closed by exec, or carries the errno of what failed before it.
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(error_read.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(error)) {
    return FromErrno(fmt::format("cannot start {}", options.program), error);
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (end_.has_value()) return;
  Signal(SIGKILL);
  // After a deadline the process is stuck in the kernel; init will reap it.
  if (exit_fd_.valid()) {
    Reap(*killed_ + kReapTimeout).IgnoreError();
  } else {
    waitpid(pid_, nullptr, 0);
  }
}

void ChildProcess::Signal(int signal) {
  if (end_.has_value()) return;
  kill(-pid_, signal);
  if (signal == SIGKILL && !killed_.has_value()) killed_ = absl::Now();
}

std::optional<ProcessEnd> ChildProcess::TryReap() {
  if (end_.has_value()) return end_;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return std::nullopt;
  }
  // While the process is a zombie its number, and so its group's, cannot belong to anyone else.
  kill(-pid_, SIGKILL);
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
  end_ = info.si_code == CLD_EXITED ? ProcessEnd{.exit_code = info.si_status}
                                    : ProcessEnd{.signal = info.si_status};
  return end_;
}

absl::StatusOr<ProcessEnd> ChildProcess::Reap(absl::Time deadline) {
  while (true) {
    if (std::optional<ProcessEnd> end = TryReap(); end.has_value()) return *end;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(fmt::format("process {} has not ended in time", pid_));
    }
    pollfd entry{.fd = exit_fd_.get(), .events = POLLIN, .revents = 0};
    poll(&entry, 1,
         static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 60'000)));
  }
}

}  // namespace lcab::worker
