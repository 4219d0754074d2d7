#include "worker/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

class ChildProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> fds;
    ASSERT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
    read_ = FileDescriptor(fds[0]);
    write_ = FileDescriptor(fds[1]);
  }

  std::unique_ptr<ChildProcess> Shell(const std::string& script) {
    auto child = ChildProcess::Spawn(
        {.program = "/bin/sh", .arguments = {"-c", script}, .output_fd = write_.get()});
    EXPECT_TRUE(child.ok()) << child.status();
    write_.Close();
    return child.ok() ? *std::move(child) : nullptr;
  }

  // Everything until all writers have closed.
  std::string ReadAll() const {
    std::string text;
    std::array<char, 256> piece;
    ssize_t count = 0;
    while ((count = read(read_.get(), piece.data(), piece.size())) > 0) {
      text.append(piece.data(), static_cast<size_t>(count));
    }
    return text;
  }

  FileDescriptor read_, write_;
};

TEST_F(ChildProcessTest, ItsOutputAndErrorsArriveAndItsExitCodeIsKnown) {
  auto child = Shell("echo out; echo err >&2; exit 7");
  ASSERT_NE(child, nullptr);
  EXPECT_EQ(ReadAll(), "out\nerr\n");
  const auto end = child->Reap(Soon());
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->signal, 0);
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(Describe(*end), "exited with code 7");
}

TEST_F(ChildProcessTest, ASignalIsNamed) {
  auto child = Shell("kill -SEGV $$");
  ASSERT_NE(child, nullptr);
  const auto end = child->Reap(Soon());
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->signal, SIGSEGV);
  EXPECT_EQ(Describe(*end), "was killed by SIGSEGV (signal 11)");
}

TEST_F(ChildProcessTest, AProgramThatIsNotThereIsNamed) {
  const auto child =
      ChildProcess::Spawn({.program = "/no/such/program", .output_fd = write_.get()});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(child.status().message().find("/no/such/program"), std::string::npos);
}

TEST_F(ChildProcessTest, AFileThatIsNoProgramIsRefused) {
  const auto child = ChildProcess::Spawn({.program = "/etc/passwd", .output_fd = write_.get()});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ChildProcessTest, ItsOwnChildrenEndWithIt) {
  // The grandchild keeps the pipe open: the end of the output is the end of the grandchild.
  auto child = Shell("sleep 1000 & echo started; exit 0");
  ASSERT_NE(child, nullptr);
  ASSERT_TRUE(child->Reap(Soon()).ok());
  EXPECT_EQ(ReadAll(), "started\n");
}

TEST_F(ChildProcessTest, TheDestructorLeavesNoProcess) {
  auto child = Shell("sleep 1000");
  ASSERT_NE(child, nullptr);
  const pid_t pid = child->pid();
  child.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(ReadAll(), "");
}

TEST_F(ChildProcessTest, OnlyItsOwnDescriptorsAreOpen) {
  // Opened without O_CLOEXEC on purpose.
  const FileDescriptor leaky(open("/dev/null", O_RDONLY));
  ASSERT_TRUE(leaky.valid());
  auto child = Shell("ls /proc/self/fd | tr '\\n' ' '");
  ASSERT_NE(child, nullptr);
  // 0 to 2, and the one with which ls reads the folder.
  EXPECT_EQ(ReadAll(), "0 1 2 3 ");
}

TEST_F(ChildProcessTest, ReapWaitsNoLongerThanItsDeadline) {
  auto child = Shell("sleep 1000");
  ASSERT_NE(child, nullptr);
  EXPECT_EQ(child->Reap(absl::Now() + absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  child->Signal(SIGTERM);
  const auto end = child->Reap(Soon());
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->signal, SIGTERM);
}

TEST_F(ChildProcessTest, ItDiesWithItsParent) {
  // The middle process starts the child and is then killed; the pipe closes when the child is gone.
  const pid_t middle = fork();
  if (middle == 0) {
    auto child = ChildProcess::Spawn({.program = "/bin/sh",
                                      .arguments = {"-c", "echo started; exec sleep 1000"},
                                      .output_fd = write_.get()});
    if (!child.ok()) _exit(1);
    write_.Close();
    char byte = 0;
    while (read(read_.get(), &byte, 1) == 1 && byte != '\n') {
    }
    kill(getpid(), SIGKILL);
  }
  ASSERT_GT(middle, 0);
  write_.Close();
  int status = 0;
  ASSERT_EQ(waitpid(middle, &status, 0), middle);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(ReadAll(), "");
}

}  // namespace
}  // namespace lcab::worker
