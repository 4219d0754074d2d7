// Programs that are killed or stopped while a job runs: nothing is lost, nothing counts twice.

#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "lcab/v1/results.pb.h"
#include "tests/fleet.h"

namespace lcab::tests {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// LCAB_FULL_TIMES=1 runs the cases below with the times and repeats that they were reported with;
// else they are divided by 20.
int FullTimes() { return std::getenv("LCAB_FULL_TIMES") == nullptr ? 1 : 20; }

// Trials of about `seconds`, one for each length, so that no two are equal.
std::string SlowTrials(int trials, double seconds) {
  std::string lengths;
  for (int n = 0; n < trials; ++n) lengths += fmt::format("{}{}", n > 0 ? ", " : "", 64 + n);
  return Fleet::Suite(
      fmt::format("  - shape: {{q_heads: 1, head_dim: 16, dtype: bf16}}\n    seq_len: [{}]\n"
                  "    mask: full\n    kernel: {{name: test_slow, delay_ms: 10}}\n",
                  lengths),
      fmt::format("{{min_samples: {0}, max_samples: {0}, max_time: {1}ms, warmup: 1, "
                  "timeout: {2}s}}",
                  10000 * FullTimes(), static_cast<int>(1000 * seconds), 60 * FullTimes()));
}

bool IsRunning(const v1::JobEvent& event) { return event.samples() > 0; }

// Submits a suite and waits until one of its trials takes samples.
std::string SubmitAndRun(Fleet& fleet, const std::string& suite) {
  std::string job = fleet.Submit(suite);
  fleet.WaitForEvent(job, IsRunning);
  return job;
}

// Every trial has one result, and its last attempt is the one that gave it.
void ExpectAllOkOnce(Fleet& fleet, const std::string& job, int trials) {
  const v1::Job ended = fleet.GetJob(job);
  EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(ended.counts().total(), trials);
  EXPECT_EQ(ended.counts().ok(), trials);
  std::set<std::string> names;
  for (const v1::Trial& trial : fleet.Trials(job)) {
    EXPECT_TRUE(names.insert(trial.name()).second);
    EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_OK) << trial.result().reason();
    int good = 0;
    for (const v1::Attempt& attempt : trial.attempts()) {
      good += attempt.outcome() == v1::OUTCOME_OK ? 1 : 0;
      EXPECT_NE(attempt.outcome(), v1::OUTCOME_UNSPECIFIED) << "an attempt never ended";
    }
    EXPECT_EQ(good, 1) << trial.DebugString();
  }
  EXPECT_EQ(static_cast<int>(names.size()), trials);
}

TEST(Recovery, AJobSurvivesTheKillOfARunnerAWorkerAndTheCoordinator) {
  Fleet fleet;
  const std::vector<std::string> flags = {"--heartbeat-timeout", "3", "--grace", "1"};
  fleet.StartCoordinator(flags);
  fleet.StartWorker("w1", 1);
  fleet.StartWorker("w2", 1);
  const std::string job = fleet.Submit(SlowTrials(10, 0.5));

  fleet.WaitForEvent(job, IsRunning);
  ASSERT_FALSE(fleet.RunnersOf("w1").empty());
  kill(fleet.RunnersOf("w1")[0], SIGKILL);

  fleet.WaitForEvent(job, [](const v1::JobEvent& event) { return event.job().counts().ok() >= 2; });
  fleet.KillWorker("w2");
  fleet.StartWorker("w2", 1);

  fleet.WaitForEvent(job, [](const v1::JobEvent& event) { return event.job().counts().ok() >= 4; });
  fleet.KillCoordinator();
  fleet.StartCoordinator(flags);

  fleet.WaitForEnd(job);
  ExpectAllOkOnce(fleet, job, 10);
  // `job` tells what happened.
  const ClientResult told = fleet.Client({"job", job, "--server", fleet.address()});
  EXPECT_EQ(told.code, 0);
  EXPECT_THAT(told.out, HasSubstr("SIGKILL"));
  EXPECT_THAT(told.out, HasSubstr("attempt 2"));
}

// Case V1.
TEST(Recovery, ATrialThatKillsItsRunnerIsTriedThreeTimesAndStopsNobody) {
  Fleet fleet;
  const std::vector<std::string> flags = {"--max-attempts", "3", "--grace", "1"};
  fleet.StartCoordinator(flags);
  fleet.StartWorker("w1", 1);
  const std::string bad = fleet.Submit(
      Fleet::Suite("  - shape: {q_heads: 1, head_dim: 16, dtype: bf16}\n    seq_len: 64\n"
                   "    mask: full\n    kernel: test_killed\n"));
  std::vector<std::string> good;
  for (int n = 0; n < 20; ++n) {
    good.push_back(fleet.Submit(
        Fleet::Suite("  - shape: {q_heads: 1, head_dim: 16, dtype: bf16}\n    seq_len: 64\n"
                     "    mask: full\n    kernel: cpu_tiled\n")));
  }
  fleet.WaitForEvent(bad, [](const v1::JobEvent& event) {
    return event.message().find("attempt 1 failed") != std::string::npos;
  });
  fleet.KillCoordinator();
  fleet.StartCoordinator(flags);

  fleet.WaitForEnd(bad);
  const v1::Trial trial = fleet.Trials(bad)[0];
  EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_CRASHED);
  EXPECT_EQ(trial.result().fault(), v1::FAULT_INFRASTRUCTURE);
  ASSERT_EQ(trial.attempts_size(), 3);
  int lost = 0;
  for (const v1::Attempt& attempt : trial.attempts()) {
    // One that was claimed just before the coordinator's end may never have reached the worker.
    lost += attempt.outcome() == v1::OUTCOME_LOST ? 1 : 0;
    EXPECT_THAT(attempt.outcome(), AnyOf(v1::OUTCOME_CRASHED, v1::OUTCOME_LOST))
        << attempt.reason();
    ASSERT_EQ(attempt.workers_size(), 1);
    EXPECT_THAT(attempt.workers(0), HasSubstr("w1"));
  }
  EXPECT_LE(lost, 1);
  for (const std::string& job : good) {
    EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_SUCCEEDED) << job;
  }
  EXPECT_FALSE(fleet.worker("w1").TryReap().has_value()) << "the worker died";
}

// Case V2: 200 repeats.
TEST(Recovery, ACancelThatRacesWithAnythingLeavesOneEnd) {
  Fleet fleet;
  fleet.StartCoordinator({"--grace", "1"});
  fleet.StartWorker("w1", 1);
  std::mt19937 random(20'301'130);
  const std::string suite = Fleet::Suite(
      "  - shape: {q_heads: 1, head_dim: 16, dtype: bf16}\n    seq_len: 64\n    mask: full\n"
      "    kernel: cpu_tiled\n",
      "{min_samples: 1, max_samples: 2, max_time: 10ms, warmup: 0, timeout: 20s}");
  const int repeats = 10 * FullTimes();
  int cancelled = 0;
  int completed = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const std::string job = fleet.Submit(suite);
    // From before the claim to after the end.
    const auto delay = absl::Milliseconds(repeat == 0 ? 0 : random() % 200);
    Eventually([until = absl::Now() + delay] { return absl::Now() >= until; });
    const absl::Status status = fleet.Cancel(job);
    EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status)) << status;
    const v1::Job ended = fleet.WaitForEnd(job);
    const v1::TrialResult result = fleet.Trials(job)[0].result();
    if (ended.state() == v1::JOB_STATE_CANCELLED) {
      ++cancelled;
      EXPECT_EQ(result.outcome(), v1::OUTCOME_CANCELLED);
      EXPECT_EQ(result.statistics().samples(), 0) << "a cancelled trial with a result";
    } else {
      ++completed;
      EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED);
      EXPECT_EQ(result.outcome(), v1::OUTCOME_OK);
    }
    // A job that has ended cannot be cancelled, and nothing changes.
    EXPECT_EQ(fleet.Cancel(job).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(fleet.GetJob(job).state(), ended.state());
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(cancelled + completed, repeats);
  // No runner is at work: those that are left are idle, at most one for the device.
  EXPECT_LE(fleet.RunnersOf("w1").size(), 1u);
}

// Case V3, the log.
TEST(Recovery, AFloodOnStderrIsCutAndTheTrialEndsAtTheFirstTry) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.StartWorker("w1", 1);
  const std::string job = fleet.Submit(Fleet::Suite(
      "  - shape: {q_heads: 1, head_dim: 16, dtype: bf16}\n    seq_len: 64\n    mask: full\n"
      "    kernel: {name: test_prints, bytes: 20971520}\n"));
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_SUCCEEDED);
  const v1::Trial trial = fleet.Trials(job)[0];
  EXPECT_EQ(trial.attempts_size(), 1);
  const std::string log = fleet.Log(trial.name());
  EXPECT_LT(log.size(), 2u << 20);
  EXPECT_THAT(log, HasSubstr(" bytes were cut here ...]"));
  const ClientResult printed = fleet.Client({"logs", trial.name(), "--server", fleet.address()});
  EXPECT_EQ(printed.code, 0);
  EXPECT_EQ(printed.out.size(), log.size());
}

// Case V3, the samples: 4,000,000 of them, from 8 ranks.
TEST(Recovery, MillionsOfSamplesArriveWhole) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.SetVariable("LCAB_FAKE_RUNNER_SAMPLES", "500000");
  const char* programs = std::getenv("LCAB_BIN_DIR");
  fleet.StartWorker("w1", 8, {"--runner", fmt::format("{}/lcab-fake-runner", programs)});
  const std::string job = fleet.Submit(Fleet::Suite(
      "  - shape: {q_heads: 8, head_dim: 16, dtype: bf16}\n    seq_len: 64\n    mask: full\n"
      "    kernel: cpu_tiled\n    strategy: ring\n    ranks: 8\n"));
  EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(fleet.Trials(job)[0].attempts_size(), 1);
  v1::ExportResultsRequest request;
  request.mutable_filter()->set_job(job);
  request.set_samples(true);
  int64_t samples = 0;
  double sum = 0;
  const absl::Status status = fleet.link().Call([&](grpc::ClientContext* context) {
    const auto reader = fleet.link().results().ExportResults(context, request);
    v1::ExportedResult result;
    while (reader->Read(&result)) {
      samples += result.samples().seconds_size();
      for (const double seconds : result.samples().seconds()) sum += seconds;
    }
    return reader->Finish();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(samples, 4'000'000);
  EXPECT_DOUBLE_EQ(sum, 4'000'000 * 0.25);
}

// Case V4: heartbeats time out after 30 s, the trial takes 10 min with every core busy, the
// coordinator is away for 60 s.
TEST(Recovery, ABusyWorkerIsNotLostAndAnAbsentCoordinatorLosesNoResult) {
  Fleet fleet;
  const std::vector<std::string> flags = {
      "--heartbeat-timeout", fmt::format("{}", 1.5 * FullTimes()), "--max-attempts", "1"};
  fleet.StartCoordinator(flags);
  fleet.StartWorker("w1", 1);
  std::atomic<bool> over = false;
  std::vector<std::thread> spinners;
  for (unsigned n = 0; n < std::thread::hardware_concurrency(); ++n) {
    spinners.emplace_back([&over] {
      while (!over) {
      }
    });
  }
  const std::string job = fleet.Submit(SlowTrials(1, 30.0 * FullTimes()));
  fleet.WaitForEvent(job, [](const v1::JobEvent& event) { return event.samples() >= 1; });
  // Three times as long as a worker may be silent. One that is lost would have lost its trial.
  Eventually(
      [until = absl::Now() + FullTimes() * absl::Seconds(4.5)] { return absl::Now() >= until; });
  EXPECT_EQ(fleet.GetJob(job).counts().running(), 1);
  fleet.KillCoordinator();
  Eventually(
      [until = absl::Now() + FullTimes() * absl::Seconds(3)] { return absl::Now() >= until; });
  fleet.StartCoordinator(flags);
  fleet.WaitForEnd(job, FullTimes() * kPatience);
  // Lost in between or not, the result arrives, and it is the only one.
  EXPECT_TRUE(Eventually([&] { return fleet.GetJob(job).state() == v1::JOB_STATE_SUCCEEDED; }));
  over = true;
  for (std::thread& spinner : spinners) spinner.join();
  const v1::Trial trial = fleet.Trials(job)[0];
  EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_OK) << trial.result().reason();
  EXPECT_EQ(trial.attempts_size(), 1);
}

TEST(Recovery, AWorkerThatIsAskedToStopFinishesWhatRuns) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.StartWorker("w1", 1);
  const std::string job = SubmitAndRun(fleet, SlowTrials(2, 2));
  fleet.worker("w1").Signal(SIGTERM);
  EXPECT_EQ(CodeOf(fleet.worker("w1")), 0);
  const v1::Job job_now = fleet.GetJob(job);
  EXPECT_EQ(job_now.counts().ok(), 1);
  EXPECT_EQ(job_now.counts().pending(), 1);
  fleet.StartWorker("w2", 1);
  fleet.WaitForEnd(job);
  ExpectAllOkOnce(fleet, job, 2);
}

TEST(Recovery, AWorkerThatIsAskedToStopWhileTheCoordinatorIsAwayKeepsWhatItCouldNotDeliver) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.StartWorker("w1", 1);
  const std::string job = SubmitAndRun(fleet, SlowTrials(1, 1));
  fleet.KillCoordinator();
  fleet.worker("w1").Signal(SIGTERM);
  EXPECT_EQ(CodeOf(fleet.worker("w1")), 0);
  EXPECT_THAT(fleet.Read("w1.log"), HasSubstr("the next start of this worker sends it again"));
  EXPECT_THAT(fleet.Read("w1.log"), HasSubstr("stopped"));
  fleet.StartCoordinator();
  fleet.StartWorker("w1", 1);
  fleet.WaitForEnd(job);
  ExpectAllOkOnce(fleet, job, 1);
  EXPECT_EQ(fleet.Trials(job)[0].attempts_size(), 1)
      << "the result was not delivered but made anew";
}

TEST(Recovery, ASecondSignalStopsAWorkerAtOnceAndTheTrialRunsElsewhere) {
  Fleet fleet;
  fleet.StartCoordinator({"--grace", "1"});
  fleet.StartWorker("w1", 1);
  const std::string job = SubmitAndRun(fleet, SlowTrials(1, 20));
  const absl::Time start = absl::Now();
  fleet.worker("w1").Signal(SIGTERM);
  EXPECT_TRUE(
      Eventually([&] { return fleet.Read("w1.log").find("stopping") != std::string::npos; }));
  fleet.worker("w1").Signal(SIGTERM);
  EXPECT_EQ(CodeOf(fleet.worker("w1")), 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
  EXPECT_EQ(fleet.GetJob(job).counts().pending(), 1);
}

TEST(Recovery, ACoordinatorThatIsAskedToStopEndsAndTheJobGoesOnWithTheNext) {
  Fleet fleet;
  fleet.StartCoordinator();
  fleet.StartWorker("w1", 1);
  const std::string job = SubmitAndRun(fleet, SlowTrials(3, 1));
  fleet.coordinator().Signal(SIGTERM);
  EXPECT_EQ(CodeOf(fleet.coordinator()), 0);
  fleet.StartCoordinator();
  fleet.WaitForEnd(job);
  ExpectAllOkOnce(fleet, job, 3);
  for (const v1::Trial& trial : fleet.Trials(job)) EXPECT_EQ(trial.attempts_size(), 1);
}

TEST(Recovery, AGangOverTwoWorkersRunsAndEndsAsOne) {
  Fleet fleet;
  fleet.StartCoordinator({"--max-attempts", "2", "--grace", "1"});
  fleet.StartWorker("w1", 1, {"--data-interface", "127.0.0.1"});
  fleet.StartWorker("w2", 1, {"--data-interface", "127.0.0.1"});
  const std::string matrix =
      "  - shape: {q_heads: 2, head_dim: 16, dtype: bf16}\n    seq_len: 256\n    mask: causal\n"
      "    strategy: [ring, all_gather]\n    ranks: 2\n    pass: [forward, backward]\n";
  const std::string good = fleet.Submit(Fleet::Suite(matrix + "    kernel: cpu_tiled\n"));
  EXPECT_EQ(fleet.WaitForEnd(good).counts().ok(), 4);
  for (const v1::Trial& trial : fleet.Trials(good)) {
    std::set<std::string> workers;
    for (const v1::RankResult& rank : trial.result().ranks()) workers.insert(rank.worker());
    EXPECT_EQ(workers.size(), 2u) << trial.DebugString();
  }
  const absl::Time start = absl::Now();
  const std::string bad = fleet.Submit(Fleet::Suite(
      "  - shape: {q_heads: 2, head_dim: 16, dtype: bf16}\n    seq_len: 256\n    mask: causal\n"
      "    strategy: ring\n    ranks: 2\n    kernel: test_crash\n"));
  EXPECT_EQ(fleet.WaitForEnd(bad).counts().crashed(), 1);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  const v1::TrialResult result = fleet.Trials(bad)[0].result();
  EXPECT_EQ(result.fault(), v1::FAULT_KERNEL) << result.reason();
  EXPECT_THAT(result.reason(), HasSubstr("SIGSEGV"));
  EXPECT_EQ(fleet.WaitForEnd(fleet.Submit(Fleet::Suite(matrix + "    kernel: cpu_tiled\n")))
                .counts()
                .ok(),
            4);
}

}  // namespace
}  // namespace lcab::tests
