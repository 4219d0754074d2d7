#include "worker/runner_process.h"

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

std::string FakeRunner() { return std::string(std::getenv("LCAB_BIN_DIR")) + "/lcab-fake-runner"; }

TEST(RunnerPool, ARunnerThatCameBackIsUsedAgain) {
  RunnerPool pool({.program = FakeRunner()});
  auto runner = pool.Acquire("cpu:0");
  ASSERT_TRUE(runner.ok()) << runner.status();
  const pid_t pid = (*runner)->process().pid();
  pool.Release("cpu:0", *std::move(runner));
  EXPECT_EQ(pool.idle(), 1);
  auto again = pool.Acquire("cpu:0");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->process().pid(), pid);
  auto other = pool.Acquire("cpu:1");
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*other)->process().pid(), pid);
  EXPECT_EQ(pool.started(), 2);
}

TEST(RunnerPool, ARunnerThatDiedWhileIdleIsReplaced) {
  RunnerPool pool({.program = FakeRunner()});
  auto runner = pool.Acquire("cpu:0");
  ASSERT_TRUE(runner.ok());
  const pid_t pid = (*runner)->process().pid();
  (*runner)->process().Signal(SIGKILL);
  ASSERT_TRUE((*runner)->process().Reap(absl::Now() + absl::Seconds(20)).ok());
  pool.Release("cpu:0", *std::move(runner));
  auto again = pool.Acquire("cpu:0");
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->process().pid(), pid);
}

TEST(RunnerPool, ARunnerThatCannotStartIsAnErrorThatNamesIt) {
  RunnerPool pool({.program = "/no/such/runner"});
  const auto runner = pool.Acquire("cpu:0");
  ASSERT_FALSE(runner.ok());
  EXPECT_NE(runner.status().message().find("/no/such/runner"), std::string::npos);
}

TEST(RunnerPool, NoRunnerOutlivesThePool) {
  pid_t pid = 0;
  {
    RunnerPool pool({.program = FakeRunner()});
    auto runner = pool.Acquire("cpu:0");
    ASSERT_TRUE(runner.ok());
    pid = (*runner)->process().pid();
    pool.Release("cpu:0", *std::move(runner));
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace lcab::worker
