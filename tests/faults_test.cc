// Kernels that crash, hang, eat memory or give wrong results, through the real programs: each gives
// its trial the right outcome, and the others run.

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/proto_time.h"
#include "tests/fleet.h"

namespace lcab::tests {
namespace {

using testing::HasSubstr;

constexpr char kSmall[] =
    "  - shape: {q_heads: 2, kv_heads: 1, head_dim: 32, dtype: bf16}\n"
    "    seq_len: 128\n"
    "    mask: causal\n";

std::map<std::string, v1::Trial> ByKernel(const std::vector<v1::Trial>& trials) {
  std::map<std::string, v1::Trial> by_kernel;
  for (const v1::Trial& trial : trials) by_kernel[trial.spec().kernel().name()] = trial;
  return by_kernel;
}

int ChargedAttempts(const v1::Trial& trial) {
  int charged = 0;
  for (const v1::Attempt& attempt : trial.attempts()) {
    charged += attempt.outcome() != v1::OUTCOME_CANCELLED ? 1 : 0;
  }
  return charged;
}

TEST(Faults, EachHasItsOutcomeAndTheRestOfTheCohortGoesOn) {
  Fleet fleet;
  fleet.StartCoordinator({"--grace", "1"});
  fleet.StartWorker("w1", 1, {"--memory-limit", "256MiB"});
  const std::string job = fleet.Submit(Fleet::Suite(
      std::string(kSmall) +
      "    kernel: [test_crash, cpu_tiled, test_abort, test_memory, test_unsupported, test_silent, "
      "test_last_row, cpu_reference]\n" +
      kSmall +
      "    kernel: test_hang\n"
      "    measure: {min_samples: 2, max_samples: 4, max_time: 50ms, warmup: 1, timeout: 2s}\n"));
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_FAILED);
  const std::map<std::string, v1::Trial> trials = ByKernel(fleet.Trials(job));
  struct Expected {
    std::string kernel;
    v1::Outcome outcome;
    v1::Fault fault;
    std::string reason;
  };
  for (const Expected& expected : std::vector<Expected>{
           {"test_crash", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "SIGSEGV"},
           {"test_abort", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "SIGABRT"},
           {"test_hang", v1::OUTCOME_TIMED_OUT, v1::FAULT_LIMIT, "2s"},
           {"test_memory", v1::OUTCOME_OUT_OF_MEMORY, v1::FAULT_LIMIT, "bytes"},
           {"test_unsupported", v1::OUTCOME_UNSUPPORTED, v1::FAULT_UNSPECIFIED, "on purpose"},
           {"test_silent", v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL, ""},
           {"test_last_row", v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL, "row 127"},
           {"cpu_tiled", v1::OUTCOME_OK, v1::FAULT_UNSPECIFIED, ""},
           {"cpu_reference", v1::OUTCOME_OK, v1::FAULT_UNSPECIFIED, ""}}) {
    SCOPED_TRACE(expected.kernel);
    ASSERT_EQ(trials.count(expected.kernel), 1u);
    const v1::TrialResult& result = trials.at(expected.kernel).result();
    EXPECT_EQ(result.outcome(), expected.outcome) << result.reason();
    EXPECT_EQ(result.fault(), expected.fault) << result.reason();
    EXPECT_THAT(result.reason(), HasSubstr(expected.reason));
  }
  // None of them was infrastructure's fault: nothing that failed was tried again.
  for (const auto& [kernel, trial] : trials) EXPECT_LE(ChargedAttempts(trial), 1) << kernel;
}

// More of them than a trial has attempts: each takes the runner with it, in its first call or
// later.
TEST(Faults, NeighboursThatHangCostAHealthyTrialNoAttempt) {
  Fleet fleet;
  // Longer than a runner needs to report its own hang and to leave.
  fleet.StartCoordinator({"--grace", "5", "--max-attempts", "2"});
  fleet.StartWorker("w1", 1);
  const std::string job = fleet.Submit(Fleet::Suite(
      std::string(kSmall) + "    kernel: [{name: test_hang, call: 1}, {name: test_hang, call: 2}, "
                            "{name: test_hang, call: 6}, cpu_tiled]\n",
      "{min_samples: 2, max_samples: 4, max_time: 50ms, warmup: 1, timeout: 4s}"));
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_FAILED);
  for (const v1::Trial& trial : fleet.Trials(job)) {
    const std::string& kernel = trial.spec().kernel().name();
    SCOPED_TRACE(trial.result().reason());
    EXPECT_EQ(trial.result().outcome(),
              kernel == "test_hang" ? v1::OUTCOME_TIMED_OUT : v1::OUTCOME_OK);
    EXPECT_EQ(ChargedAttempts(trial), 1) << kernel;
  }
}

// Three trials of about two seconds each, one limit of four: together they take longer than it.
TEST(Faults, ATrialsClockStandsStillDuringTheTurnsOfOthers) {
  Fleet fleet;
  fleet.StartCoordinator({"--grace", "0.5"});
  fleet.StartWorker("w1", 1);
  const std::string job = fleet.Submit(Fleet::Suite(
      std::string(kSmall) +
          "    kernel: [{name: test_slow, delay_ms: 120}, {name: test_slow, delay_ms: 121}, "
          "{name: test_slow, delay_ms: 122}]\n",
      "{min_samples: 10, max_samples: 10, max_time: 4s, warmup: 1, timeout: 4s}"));
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_SUCCEEDED);
  absl::Duration longest;
  for (const v1::Trial& trial : fleet.Trials(job)) {
    const v1::TrialResult& result = trial.result();
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
    EXPECT_EQ(trial.attempts_size(), 1);
    longest = std::max(longest, FromProto(result.end_time()) - FromProto(result.start_time()));
  }
  EXPECT_GT(longest, absl::Milliseconds(4500)) << "nobody waited for longer than the limit";
}

TEST(Faults, ARankThatCrashesEndsTheAttemptOfAllRanksSoon) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.StartWorker("w1", 4);
  const absl::Time start = absl::Now();
  const std::string job = fleet.Submit(
      Fleet::Suite(std::string(kSmall) +
                   "    kernel: [test_crash, cpu_tiled]\n    strategy: ring\n    ranks: 4\n"));
  const v1::Job ended = fleet.WaitForEnd(job);
  EXPECT_EQ(ended.counts().crashed(), 1);
  EXPECT_EQ(ended.counts().ok(), 1);
  const v1::TrialResult result = ByKernel(fleet.Trials(job))["test_crash"].result();
  EXPECT_EQ(result.fault(), v1::FAULT_KERNEL);
  EXPECT_THAT(result.reason(), HasSubstr("SIGSEGV"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(60));
}

// Case C6 on CPUs: rank 1 of 4 is killed in mid-trial.
TEST(Faults, ARankThatIsKilledIsNamedItsGangEndsAndTheNextTrialRuns) {
  Fleet fleet;
  fleet.StartCoordinator({"--max-attempts", "1", "--grace", "2"});
  fleet.StartWorker("w1", 4);
  const std::string job = fleet.Submit(Fleet::Suite(
      "  - shape: {q_heads: 4, head_dim: 32, dtype: bf16}\n    seq_len: 2048\n    mask: full\n"
      "    kernel: {name: test_slow, delay_ms: 20}\n    strategy: ring\n    ranks: 4\n",
      "{min_samples: 1000, max_samples: 1000, max_time: 60s, warmup: 1, timeout: 120s}"));
  fleet.WaitForEvent(job, [](const v1::JobEvent& event) { return event.samples() >= 10; });
  const std::vector<pid_t> runners = fleet.RunnersOf("w1");
  ASSERT_EQ(runners.size(), 4u);
  const absl::Time killed = absl::Now();
  kill(runners[1], SIGKILL);  // they are started in the order of ranks
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_FAILED);
  EXPECT_LT(absl::Now() - killed, absl::Seconds(10));
  const v1::TrialResult result = fleet.Trials(job)[0].result();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_CRASHED);
  EXPECT_EQ(result.fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_THAT(result.reason(), HasSubstr(fmt::format("rank 1's runner (process {}", runners[1])));
  EXPECT_THAT(result.reason(), HasSubstr("SIGKILL"));
  EXPECT_TRUE(Eventually(
      [&] {
        for (const pid_t pid : runners) {
          if (kill(pid, 0) == 0) return false;
        }
        return true;
      },
      absl::Seconds(10)))
      << "processes of the gang are left";

  const std::string next = fleet.Submit(Fleet::Suite(
      std::string(kSmall) + "    kernel: cpu_tiled\n    strategy: ring\n    ranks: 4\n"));
  EXPECT_EQ(fleet.WaitForEnd(next).counts().ok(), 1);
}

TEST(Faults, AGangThatHangsEndsSoonAfterItIsCancelled) {
  Fleet fleet;
  fleet.StartCoordinator({"--grace", "1"});
  fleet.StartWorker("w1", 4);
  const std::string job = fleet.Submit(Fleet::Suite(
      std::string(kSmall) + "    kernel: test_hang\n    strategy: ring\n    ranks: 4\n"));
  fleet.WaitForEvent(job, [](const v1::JobEvent& event) { return event.stage() == "probe"; });
  const std::vector<pid_t> runners = fleet.RunnersOf("w1");
  EXPECT_EQ(runners.size(), 4u);
  const absl::Time cancelled = absl::Now();
  EXPECT_TRUE(fleet.Cancel(job).ok());
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_LT(absl::Now() - cancelled, absl::Seconds(10));
  for (const pid_t pid : runners) EXPECT_NE(kill(pid, 0), 0) << pid << " is left";
}

// Case C5, the failed allocation, through the real programs.
TEST(Faults, AnAllocationThatFailsOnOneRankIsOutOfMemoryAndNobodyWaits) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.SetVariable("LCAB_TEST_HOOKS", "allocation_fails_rank=2");
  fleet.StartWorker("w1", 4, {"--test-hooks"});
  const std::string job = fleet.Submit(Fleet::Suite(
      std::string(kSmall) + "    kernel: cpu_tiled\n    strategy: ring\n    ranks: 4\n"));
  fleet.WaitForEnd(job);
  const v1::TrialResult result = fleet.Trials(job)[0].result();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(result.rank(), 2);
}

}  // namespace
}  // namespace lcab::tests
