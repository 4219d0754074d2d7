#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lcab_version.h"
#include "proto/proto_time.h"
#include "worker/runner/testing/fake_worker.h"

namespace lcab::runner {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

v1::CohortSpec CohortOf(const std::vector<v1::TrialSpec>& trials) {
  v1::CohortSpec cohort;
  cohort.set_ranks(trials.front().ranks());
  cohort.set_ranks_per_device(1);
  for (const v1::TrialSpec& trial : trials) *cohort.add_trials() = trial;
  return cohort;
}

TEST(RunnerTest, OneRankMeasuresAndVerifiesBothPasses) {
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  const CohortOutcome outcome = worker.Run(
      CohortOf({MakeTrial(1, 200, v1::PASS_FORWARD), MakeTrial(1, 200, v1::PASS_BACKWARD)}));
  ASSERT_EQ(outcome.results.size(), 2U);
  for (const auto& [trial, result] : outcome.results) {
    SCOPED_TRACE(result.ShortDebugString());
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
    EXPECT_EQ(result.reason(), "");
    EXPECT_EQ(result.area(), 4 * 200 * 201 / 2);
    EXPECT_EQ(result.flops(), result.area() * 2 * (trial == 0 ? 64 : 5 * 32));
    EXPECT_GE(result.statistics().samples(), 6);
    EXPECT_GT(result.statistics().median_seconds(), 0);
    EXPECT_TRUE(result.verification().probe_ok());
    EXPECT_GE(result.verification().rows_checked(), 4 * 200);
    EXPECT_GT(result.verification().max_error(), 0);
    EXPECT_LT(result.verification().max_error_ratio(), 1);
    EXPECT_EQ(result.bytes_sent(), 0);
    EXPECT_GT(result.peak_bytes(), 0);
    EXPECT_NE(result.environment().digest(), "");
  }
  EXPECT_EQ(outcome.results.at(1).verification().keys_checked(), 2 * 200);
  EXPECT_THAT(outcome.stages.at(0), ElementsAre("plan", "prepare", "probe", "sample", "verify"));
  EXPECT_THAT(outcome.done, Each(Optional(std::string())));
}

TEST(RunnerTest, RanksTogetherMeasureEveryStrategyAndCountBytes) {
  FakeWorker worker(2, FakeWorker::Kind::kThreads);
  std::vector<v1::TrialSpec> trials;
  for (const char* strategy : {"ring", "ring_zigzag", "all_gather", "ulysses"}) {
    for (const v1::Pass pass : {v1::PASS_FORWARD, v1::PASS_BACKWARD}) {
      trials.push_back(MakeTrial(2, 250, pass));
      trials.back().mutable_strategy()->set_name(strategy);
    }
  }
  const CohortOutcome outcome = worker.Run(CohortOf(trials));
  ASSERT_EQ(outcome.results.size(), trials.size());
  for (const auto& [trial, result] : outcome.results) {
    SCOPED_TRACE(result.ShortDebugString());
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
    ASSERT_EQ(result.ranks_size(), 2);
    int64_t area = 0;
    for (const v1::RankResult& rank : result.ranks()) {
      EXPECT_EQ(rank.bytes_sent(), rank.bytes_formula());
      EXPECT_GT(rank.bytes_sent(), 0);
      area += rank.area();
    }
    EXPECT_EQ(area, result.area());
    EXPECT_FALSE(result.ran_in_turn());
    EXPECT_EQ(outcome.result_rank.at(trial), 0);
  }
  for (const auto& [trial, ranks] : outcome.started) EXPECT_EQ(ranks, 2) << trial;
}

TEST(RunnerTest, RunnerIsKeptWarmBetweenCohorts) {
  FakeWorker worker(2, FakeWorker::Kind::kThreads);
  for (const int64_t seq_len : {64, 100, 64}) {
    const CohortOutcome outcome = worker.Run(CohortOf({MakeTrial(2, seq_len, v1::PASS_FORWARD)}));
    ASSERT_EQ(outcome.results.size(), 1U);
    EXPECT_EQ(outcome.results.at(0).outcome(), v1::OUTCOME_OK) << outcome.results.at(0).reason();
    EXPECT_THAT(outcome.done, Each(Optional(std::string())));
  }
}

TEST(RunnerTest, VerifyOnlyTimesNothing) {
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(1, 100, v1::PASS_FORWARD);
  trial.mutable_measure()->set_mode(v1::MEASURE_MODE_VERIFY);
  const v1::TrialResult result = worker.Run(CohortOf({trial})).results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
  EXPECT_EQ(result.stop_reason(), v1::STOP_REASON_VERIFY_ONLY);
  EXPECT_EQ(result.statistics().samples(), 0);
  EXPECT_TRUE(result.verification().numbers_ok());
}

// What the kernel changes here is a temporary, written anew by each iteration's exchange.
TEST(RunnerTest, AKernelThatChangesATemporaryIsFoundHoweverFewSamplesThereAre) {
  FakeWorker worker(2, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(2, 250, v1::PASS_FORWARD);
  trial.mutable_strategy()->set_name("ulysses");
  trial.mutable_kernel()->set_name("test_mutates_input");
  trial.mutable_measure()->set_min_samples(1);
  trial.mutable_measure()->set_max_samples(1);
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Milliseconds(1));
  trial.mutable_measure()->set_warmup(0);
  const v1::TrialResult result = worker.Run(CohortOf({trial})).results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << result.reason();
  EXPECT_THAT(result.reason(), HasSubstr("changed what it may only read: q of rank"));
  EXPECT_FALSE(result.verification().honesty_ok());
  EXPECT_TRUE(result.verification().numbers_ok());
}

TEST(RunnerTest, RowsThatSeeNothingAreRightInBothPasses) {  // Case N1
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  std::vector<v1::TrialSpec> trials;
  for (const v1::Pass pass : {v1::PASS_FORWARD, v1::PASS_BACKWARD}) {
    trials.push_back(MakeTrial(1, 160, pass));
    v1::Problem& problem = *trials.back().mutable_problem();
    problem.set_q_heads(8);
    problem.set_kv_heads(2);
    problem.set_qk_head_dim(128);
    problem.set_v_head_dim(128);
    problem.set_k_tokens(96);
    problem.mutable_mask()->set_name("slices");
    v1::Value::List& slice = *(*problem.mutable_mask()->mutable_options())["slices"]
                                  .mutable_list_value()
                                  ->add_values()
                                  ->mutable_list_value();
    for (const int64_t edge : {0, 160, 0, 96}) slice.add_values()->set_integer_value(edge);
    slice.add_values()->set_text_value("causal");
  }
  const CohortOutcome outcome = worker.Run(CohortOf(trials));
  ASSERT_EQ(outcome.results.size(), 2U);
  for (const auto& [trial, result] : outcome.results) {
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
    EXPECT_EQ(result.area(), 8 * 4656);
  }
}

// Copies of a message hold its parameters in any order, which must not make another problem of it
// on one rank than on the next: they would wait for each other's part of the reference.
TEST(RunnerTest, RanksAgreeOnTheProblemThatTrialsShareWhateverTheOrderOfItsParameters) {
  FakeWorker worker(2, FakeWorker::Kind::kThreads);
  std::vector<v1::TrialSpec> trials(8, MakeTrial(2, 100, v1::PASS_FORWARD));
  for (v1::TrialSpec& trial : trials) {
    v1::Component& mask = *trial.mutable_problem()->mutable_mask();
    mask.set_name("block_sparse_variable");
    (*mask.mutable_options())["average_block"].set_integer_value(16);
    (*mask.mutable_options())["min_block"].set_integer_value(4);
    (*mask.mutable_options())["keep"].set_real_value(0.5);
  }
  const CohortOutcome outcome = worker.Run(CohortOf(trials));
  ASSERT_EQ(outcome.results.size(), trials.size());
  for (const auto& [trial, result] : outcome.results) {
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
  }
}

// --- Trials that do not work out ---

TEST(RunnerTest, UnsupportedTrialsSayWhyAndTheOthersGoOn) {
  FakeWorker worker(2, FakeWorker::Kind::kThreads);
  std::vector<v1::TrialSpec> trials(6, MakeTrial(2, 100, v1::PASS_FORWARD));
  trials[0].mutable_kernel()->set_name("test_unsupported");
  trials[1].mutable_kernel()->set_name("cpu_tild");
  trials[2].mutable_strategy()->set_name("single");
  trials[3].mutable_problem()->mutable_mask()->set_name("no_such_mask");
  trials[4].mutable_measure()->set_inputs("strange");
  const CohortOutcome outcome = worker.Run(CohortOf(trials));
  ASSERT_EQ(outcome.results.size(), 6U);
  for (int trial = 0; trial < 5; ++trial) {
    EXPECT_EQ(outcome.results.at(trial).outcome(), v1::OUTCOME_UNSUPPORTED) << trial;
    EXPECT_EQ(outcome.results.at(trial).fault(), v1::FAULT_UNSPECIFIED);
    EXPECT_EQ(outcome.results.at(trial).rank(), -1);
    EXPECT_NE(outcome.results.at(trial).reason(), "");
  }
  EXPECT_THAT(outcome.results.at(0).reason(), HasSubstr("supports nothing"));
  EXPECT_THAT(outcome.results.at(1).reason(), HasSubstr("cpu_tiled"));  // the nearest name
  EXPECT_EQ(outcome.results.at(5).outcome(), v1::OUTCOME_OK) << outcome.results.at(5).reason();
}

TEST(RunnerTest, TrialThatTakesTheDeviceAlongEndsTheProcessAndNoOtherTrial) {
  std::vector<v1::TrialSpec> trials(3, MakeTrial(1, 100, v1::PASS_FORWARD));
  trials[1].mutable_kernel()->set_name("test_skip_tile");
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  const CohortOutcome outcome = worker.Run(CohortOf(trials), {{"device_lost_trial", "1"}});
  ASSERT_EQ(outcome.results.size(), 1U);
  EXPECT_EQ(outcome.results.begin()->first, 1);
  EXPECT_THAT(outcome.done, Each(Optional(HasSubstr("device"))));
}

TEST(RunnerTest, AllocationThatFailsOnOneRankIsOutOfMemoryThereAndNobodyWaits) {  // Case C5
  FakeWorker worker(4, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(4, 200, v1::PASS_FORWARD);
  const absl::Time start = absl::Now();
  const CohortOutcome outcome = worker.Run(CohortOf({trial}), {{"allocation_fails_rank", "2"}});
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  const v1::TrialResult& result = outcome.results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(result.fault(), v1::FAULT_LIMIT);
  EXPECT_EQ(result.rank(), 2);
  EXPECT_THAT(result.reason(), HasSubstr("rank 2: "));
  EXPECT_THAT(outcome.done, Each(Optional(std::string())));
}

TEST(RunnerTest, CapThatExpiresOnOneRankEndsTheTrialForAll) {  // Case C5
  FakeWorker worker(4, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(4, 200, v1::PASS_FORWARD);
  trial.mutable_kernel()->set_name("test_slow");  // so that each iteration has a vote of its own
  (*trial.mutable_kernel()->mutable_options())["delay_ms"].set_integer_value(12);
  trial.mutable_measure()->set_precision(1e-9);
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Minutes(10));
  const CohortOutcome outcome =
      worker.Run(CohortOf({trial}), {{"cap_expires_rank", "2"}, {"cap_expires_iteration", "37"}});
  const v1::TrialResult& result = outcome.results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
  EXPECT_EQ(result.stop_reason(), v1::STOP_REASON_MAX_TIME);
  EXPECT_EQ(result.statistics().samples(), 37);
}

TEST(RunnerTest, IntervalRuleEndsTheTrialForAll) {  // Case C5
  FakeWorker worker(4, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(4, 200, v1::PASS_FORWARD);
  trial.mutable_measure()->set_precision(10);  // as precise as asked at the minimum of samples
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Minutes(10));
  const v1::TrialResult result = worker.Run(CohortOf({trial})).results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
  EXPECT_EQ(result.stop_reason(), v1::STOP_REASON_PRECISION);
}

TEST(RunnerTest, TrialsTooLargeTogetherRunInTurnAndOneTooLargeAloneIsOutOfMemory) {
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  const std::vector<v1::TrialSpec> trials(2, MakeTrial(1, 300, v1::PASS_FORWARD));
  const int64_t of_one = worker.Run(CohortOf({trials[0]})).results.at(0).peak_bytes();
  ASSERT_GT(of_one, 0);
  CohortOutcome outcome = worker.Run(CohortOf(trials), {}, nullptr, of_one * 3 / 2 + (1 << 16));
  ASSERT_EQ(outcome.results.size(), 2U);
  for (const auto& [trial, result] : outcome.results) {
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
    EXPECT_TRUE(result.ran_in_turn());
  }
  outcome = worker.Run(CohortOf(trials), {}, nullptr, of_one / 2);
  ASSERT_EQ(outcome.results.size(), 2U);
  for (const auto& [trial, result] : outcome.results) {
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OUT_OF_MEMORY);
    EXPECT_THAT(result.reason(), HasSubstr("bytes"));
  }
}

TEST(RunnerTest, AbortEndsTheCohortSoonAndTheRunnerIsNotKept) {
  FakeWorker worker(2, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(2, 200, v1::PASS_FORWARD);
  trial.mutable_measure()->set_precision(1e-9);
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Minutes(10));
  trial.mutable_measure()->set_max_samples(1'000'000'000);
  std::atomic<bool> aborted = false;
  const absl::Time start = absl::Now();
  const CohortOutcome outcome =
      worker.Run(CohortOf({trial}), {}, [&](int, const v1::FromRunner& message) {
        if (message.progress().stage() == "sample" && !aborted.exchange(true)) {
          worker.AbortAll("somebody cancelled it");
        }
      });
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_TRUE(outcome.results.empty());  // the worker knows better what it was
  EXPECT_THAT(outcome.done, Each(Optional(HasSubstr("somebody cancelled it"))));
}

// --- Cases of measuring ---

TEST(RunnerTest, EverySampleThrottledIsSaidAndLeavesNoFigure) {  // Case T1
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  const v1::TrialSpec trial = MakeTrial(1, 100, v1::PASS_FORWARD);
  const CohortOutcome outcome = worker.Run(CohortOf({trial}), {{"clock_fraction", "0.6"}});
  const v1::TrialResult& result = outcome.results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.stop_reason(), v1::STOP_REASON_ALL_THROTTLED);
  EXPECT_THAT(result.reason(), HasSubstr("throttled (clock at 1800 of 3000 MHz)"));
  EXPECT_EQ(result.statistics().samples(), 0);
  EXPECT_GT(result.statistics().discarded(), 0);
  EXPECT_EQ(result.statistics().median_seconds(), 0);
  int64_t throttled = 0;
  for (const v1::SampleChunk& chunk : outcome.samples.at(0)) {
    throttled += std::count(chunk.marks().begin(), chunk.marks().end(), 1);
  }
  EXPECT_EQ(throttled, result.statistics().discarded());
}

TEST(RunnerTest, FirstTenThrottledAreCountedAndTheRestMeasured) {  // Case T1
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(1, 100, v1::PASS_FORWARD);
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Seconds(30));
  // The iterations before those that count are at that clock too.
  const CohortOutcome outcome = worker.Run(
      CohortOf({trial}), {{"clock_fraction", "0.6"}, {"clock_fraction_iterations", "11"}});
  const v1::TrialResult& result = outcome.results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
  EXPECT_EQ(result.statistics().discarded(), 10);
  EXPECT_GT(result.statistics().samples(), 0);
}

TEST(RunnerTest, TimeThatIsNoTimeIsNeverASample) {  // Case T3
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  for (const char* elapsed : {"0s", "-1us"}) {
    const CohortOutcome outcome =
        worker.Run(CohortOf({MakeTrial(1, 100, v1::PASS_FORWARD)}), {{"elapsed", elapsed}});
    const v1::TrialResult& result = outcome.results.at(0);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT);
    EXPECT_FALSE(result.verification().honesty_ok());
    EXPECT_THAT(result.reason(), HasSubstr("no time"));
    EXPECT_EQ(result.statistics().samples(), 0);
    EXPECT_EQ(result.statistics().median_seconds(), 0);
  }
}

TEST(RunnerTest, KernelThatReturnsEarlyIsWrongAndHasNoFigure) {  // Case T3
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(1, 100, v1::PASS_FORWARD);
  trial.mutable_kernel()->set_name("test_silent");
  const v1::TrialResult result = worker.Run(CohortOf({trial})).results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(result.fault(), v1::FAULT_KERNEL);
  EXPECT_EQ(result.statistics().median_seconds(), 0);
  EXPECT_THAT(result.reason(), HasSubstr("never written"));
}

TEST(RunnerTest, RateAboveTheArithmeticPeakIsWrong) {
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  const v1::TrialResult result =
      worker.Run(CohortOf({MakeTrial(1, 400, v1::PASS_FORWARD)}), {{"elapsed", "10us"}})
          .results.at(0);  // 4 TFLOP/s
  EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_THAT(result.reason(), HasSubstr("that the arithmetic allows"));
}

TEST(RunnerTest, PreparationAndHostDelaysAreNotInTheFigure) {  // Case T6
  FakeWorker worker(1, FakeWorker::Kind::kThreads);
  v1::TrialSpec trial = MakeTrial(1, 128, v1::PASS_FORWARD);
  trial.mutable_kernel()->set_name("test_prepare_slow");
  (*trial.mutable_kernel()->mutable_options())["delay_ms"].set_integer_value(200);
  const v1::TrialResult result =
      worker.Run(CohortOf({trial}), {{"launch_delay", "20ms"}}).results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.reason();
  EXPECT_GE(result.prepare_seconds(), 0.2);
  EXPECT_LT(result.statistics().median_seconds(), 0.02);
}

// --- Processes that end ---

TEST(RunnerProcessTest, KernelThatHangsIsReportedByItsOwnRunnerWhichThenEnds) {
  FakeWorker worker(1, FakeWorker::Kind::kProcesses);
  v1::TrialSpec trial = MakeTrial(1, 64, v1::PASS_FORWARD);
  trial.mutable_kernel()->set_name("test_hang");
  *trial.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(1));
  const CohortOutcome outcome = worker.Run(CohortOf({trial}));
  const v1::TrialResult& result = outcome.results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.fault(), v1::FAULT_LIMIT);
  EXPECT_THAT(result.reason(), HasSubstr("still at 'probe'"));
  EXPECT_THAT(outcome.done, Each(Optional(std::string("a kernel hangs"))));
}

TEST(RunnerProcessTest, KernelThatHangsInItsFirstTimedCallIsReportedByItsOwnRunner) {
  FakeWorker worker(1, FakeWorker::Kind::kProcesses);
  v1::TrialSpec trial = MakeTrial(1, 64, v1::PASS_FORWARD);
  trial.mutable_kernel()->set_name("test_hang");
  // The probe makes two calls and a watched one follows.
  (*trial.mutable_kernel()->mutable_options())["call"].set_integer_value(4);
  *trial.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(1));
  const CohortOutcome outcome = worker.Run(CohortOf({trial}));
  EXPECT_EQ(outcome.results.at(0).outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(outcome.results.at(0).reason(), HasSubstr("still at 'sample'"));
}

TEST(RunnerProcessTest, TrialThatTakesTooLongIsTimedOutOnAllRanksAndTheNextOneRuns) {
  FakeWorker worker(2, FakeWorker::Kind::kProcesses);
  v1::TrialSpec slow = MakeTrial(2, 64, v1::PASS_FORWARD);
  slow.mutable_kernel()->set_name("test_slow");
  (*slow.mutable_kernel()->mutable_options())["delay_ms"].set_integer_value(400);
  *slow.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(2));
  const CohortOutcome outcome = worker.Run(CohortOf({slow, MakeTrial(2, 64, v1::PASS_FORWARD)}));
  ASSERT_EQ(outcome.results.size(), 2U);
  EXPECT_EQ(outcome.results.at(0).outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(outcome.results.at(0).reason(), HasSubstr("limit of 2s"));
  EXPECT_EQ(outcome.results.at(1).outcome(), v1::OUTCOME_OK) << outcome.results.at(1).reason();
  EXPECT_THAT(outcome.done, Each(Optional(std::string())));
}

TEST(RunnerProcessTest, RankThatStandsStillIsNamedAndTheOthersAreNotBlamed) {
  FakeWorker worker(2, FakeWorker::Kind::kProcesses);
  v1::TrialSpec trial = MakeTrial(2, 256, v1::PASS_FORWARD);
  trial.mutable_measure()->set_precision(1e-9);
  trial.mutable_measure()->set_max_samples(1'000'000'000);
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Minutes(10));
  *trial.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(3));
  std::atomic<bool> stopped = false;
  const CohortOutcome outcome =
      worker.Run(CohortOf({trial}), {}, [&](int rank, const v1::FromRunner& message) {
        if (rank == 0 && message.progress().samples() > 0 && !stopped.exchange(true)) {
          worker.Kill(1, SIGSTOP);
        }
        if (rank == 0 && message.has_completed()) worker.Kill(1, SIGKILL);
      });
  ASSERT_EQ(outcome.results.size(), 1U);
  const v1::TrialResult& result = outcome.results.at(0);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_TIMED_OUT) << result.reason();
  EXPECT_EQ(result.rank(), 1);
  EXPECT_EQ(outcome.result_rank.at(0), 0);
  EXPECT_THAT(outcome.done[0], Optional(std::string()));
}

TEST(RunnerProcessTest, MemoryLimitMakesAGreedyKernelOutOfMemoryAndTheNextTrialRuns) {
  if (!GetBuildInfo().sanitizers.empty()) GTEST_SKIP() << "sanitizers reserve more than any limit";
  FakeWorker worker(1, FakeWorker::Kind::kProcesses);
  v1::TrialSpec greedy = MakeTrial(1, 64, v1::PASS_FORWARD);
  greedy.mutable_kernel()->set_name("test_memory");
  const CohortOutcome outcome = worker.Run(CohortOf({greedy, MakeTrial(1, 64, v1::PASS_FORWARD)}),
                                           {}, nullptr, int64_t{256} << 20);
  ASSERT_EQ(outcome.results.size(), 2U);
  EXPECT_EQ(outcome.results.at(0).outcome(), v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(outcome.results.at(0).fault(), v1::FAULT_LIMIT);
  EXPECT_EQ(outcome.results.at(1).outcome(), v1::OUTCOME_OK) << outcome.results.at(1).reason();
}

TEST(RunnerProcessTest, RankThatIsKilledIsNamedByTheOthersWithinSeconds) {  // Case C6
  FakeWorker worker(4, FakeWorker::Kind::kProcesses);
  v1::TrialSpec trial = MakeTrial(4, 2048, v1::PASS_FORWARD);
  trial.mutable_measure()->set_precision(1e-9);
  *trial.mutable_measure()->mutable_max_time() = ToProto(absl::Minutes(10));
  *trial.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(40));
  std::atomic<bool> killed = false;
  absl::Time killed_at;
  const CohortOutcome outcome =
      worker.Run(CohortOf({trial}), {}, [&](int rank, const v1::FromRunner& message) {
        if (rank == 0 && message.progress().samples() > 0 && !killed.exchange(true)) {
          killed_at = absl::Now();
          worker.Kill(1, SIGKILL);
        } else if (killed && rank != 1 && message.has_put()) {
          // As the worker does when it sees that a rank is gone.
          worker.AbortAll("rank 1 is gone");
        }
      });
  EXPECT_TRUE(killed);
  EXPECT_LT(absl::Now() - killed_at, absl::Seconds(10));
  EXPECT_EQ(outcome.exit_status[1], SIGKILL);
  for (const size_t rank : {0, 2, 3}) {
    EXPECT_THAT(outcome.done[rank], Optional(HasSubstr("rank 1 is gone")));
  }
}

TEST(RunnerProcessTest, SegmentationFaultEndsThatProcessAlone) {
  FakeWorker worker(1, FakeWorker::Kind::kProcesses);
  v1::TrialSpec trial = MakeTrial(1, 64, v1::PASS_FORWARD);
  trial.mutable_kernel()->set_name("test_crash");
  const CohortOutcome outcome = worker.Run(CohortOf({trial}));
  EXPECT_TRUE(outcome.results.empty());
  ASSERT_TRUE(WIFSIGNALED(outcome.exit_status[0]));
  EXPECT_EQ(WTERMSIG(outcome.exit_status[0]), SIGSEGV);
  EXPECT_EQ(outcome.stages.at(0).back(), "probe");
}

}  // namespace
}  // namespace lcab::runner
