#include <csignal>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace lcab::runner
