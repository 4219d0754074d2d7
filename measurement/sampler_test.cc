#include "measurement/sampler.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "measurement/sampling_for_test.h"

namespace lcab::measurement {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SamplerTest, StopsAtTheMinimumWhenSamplesAgree) {
  FakeContestant contestant(absl::Milliseconds(50));
  Votes votes(0, 1, "t0", nullptr);
  SamplerOptions options = OptionsFor(contestant);
  options.plan.limits.min_samples = 10;
  options.plan.warmup = 3;
  Sampler sampler(options, contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_PRECISION);
  EXPECT_EQ(sampler.planner().kept_seconds().size(), 10U);
  EXPECT_EQ(contestant.iterations, 13);
  EXPECT_THAT(sampler.planner().kept_seconds(), Each(testing::DoubleEq(0.05)));
}

TEST(SamplerTest, WarmUpCountsDoNotChangeWhatIsMeasured) {  // Case T6
  for (const int64_t warmup : {0, 1, 50}) {
    FakeContestant contestant(absl::Microseconds(5));
    Votes votes(0, 1, "t0", nullptr);
    SamplerOptions options = OptionsFor(contestant);
    options.plan.warmup = warmup;
    std::vector<int32_t> marks;
    options.plan.on_samples = [&](const v1::SampleChunk& chunk) {
      marks.insert(marks.end(), chunk.marks().begin(), chunk.marks().end());
    };
    Sampler sampler(options, contestant, votes);
    ASSERT_TRUE(SampleAlone(sampler).ok());
    EXPECT_THAT(sampler.planner().kept_seconds(), Each(testing::DoubleEq(5e-6)));
    // One iteration precedes those that count in any case: it sizes the batches.
    EXPECT_EQ(std::count(marks.begin(), marks.end(), kWarmup), std::max<int64_t>(1, warmup));
  }
}

TEST(SamplerTest, FastIterationsShareAVoteAndSlowOnesHaveTheirOwn) {
  for (const auto& [iteration, most_votes] :
       {std::pair{absl::Microseconds(5), 20}, std::pair{absl::Milliseconds(10), 1003}}) {
    FakeContestant contestant(iteration);
    contestant.spread = 0.5;
    Votes votes(0, 1, "t0", nullptr);
    SamplerOptions options = OptionsFor(contestant);
    options.plan.limits = {.max_samples = 1000, .max_time = absl::Hours(1), .precision = -1};
    Sampler sampler(options, contestant, votes);
    ASSERT_TRUE(SampleAlone(sampler).ok());
    EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_MAX_SAMPLES);
    EXPECT_EQ(sampler.planner().kept_seconds().size(), 1000U);
    EXPECT_LE(votes.held(), most_votes);
    EXPECT_GE(votes.held(), most_votes / 4);
  }
}

TEST(SamplerTest, CapInTimeCountsWhatSurroundsAnIteration) {
  // A kernel of 5 us whose caches take 20 ms to flush must not run for hours to fill a cap of its
  // own microseconds.
  FakeContestant contestant(absl::Microseconds(5));
  contestant.surroundings = absl::Milliseconds(20);
  contestant.spread = 0.5;
  Votes votes(0, 1, "t0", nullptr);
  SamplerOptions options = OptionsFor(contestant);
  options.plan.limits = {.max_samples = 1'000'000, .max_time = absl::Seconds(1), .precision = -1};
  Sampler sampler(options, contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_MAX_TIME);
  EXPECT_GE(contestant.iterations, 50);
  EXPECT_LE(contestant.iterations, 52);
}

TEST(SamplerTest, SamplesBelowTheTimersResolutionTakeSeveralCalls) {  // Case T6
  FakeContestant contestant(absl::Microseconds(2));
  contestant.shortest = 9e-6;
  Votes votes(0, 1, "t0", nullptr);
  Sampler sampler(OptionsFor(contestant), contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_THAT(contestant.calls_seen,
              ElementsAre(1, 5));  // one to find out, then 5 x 2 us is enough
  EXPECT_EQ(sampler.planner().calls(), 5);
  EXPECT_THAT(sampler.planner().kept_seconds(), Each(testing::DoubleEq(2e-6)));
}

TEST(SamplerTest, EverySampleThrottledEndsWithinTheCap) {  // Case T1
  FakeContestant contestant(absl::Milliseconds(10));
  contestant.slow_until = 1'000'000;
  Votes votes(0, 1, "t0", nullptr);
  SamplerOptions options = OptionsFor(contestant);
  options.plan.limits.max_time = absl::Seconds(5);
  std::vector<int32_t> marks;
  options.plan.on_samples = [&](const v1::SampleChunk& chunk) {
    marks.insert(marks.end(), chunk.marks().begin(), chunk.marks().end());
  };
  const absl::Time start = contestant.now;
  Sampler sampler(options, contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_ALL_THROTTLED);
  EXPECT_THAT(sampler.planner().kept_seconds(), testing::IsEmpty());
  EXPECT_GT(sampler.planner().discarded(), 0);
  EXPECT_THAT(sampler.planner().throttle_reasons(), HasSubstr("1800 of 3000 MHz"));
  EXPECT_EQ(std::count(marks.begin(), marks.end(), kThrottled), sampler.planner().discarded());
  // Pauses grow to a second, so the cap may be passed by one of them.
  EXPECT_LE(contestant.now - start, absl::Seconds(6.2));
  // It paused: five seconds hold 500 iterations.
  EXPECT_LT(contestant.iterations, 100);
}

TEST(SamplerTest, FirstTenThrottledAreDiscardedAndTheRestMeasured) {  // Case T1
  FakeContestant contestant(absl::Milliseconds(10));
  contestant.slow_from = 1;  // after the iteration that sizes the batches
  contestant.slow_until = 11;
  Votes votes(0, 1, "t0", nullptr);
  Sampler sampler(OptionsFor(contestant), contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_PRECISION);
  EXPECT_EQ(sampler.planner().discarded(), 10);
  EXPECT_EQ(sampler.planner().kept_seconds().size(), 10U);
}

TEST(SamplerTest, ElapsedTimeOfZeroIsNoSampleAndEndsTheTrial) {  // Case T3
  FakeContestant contestant(absl::Milliseconds(10));
  contestant.no_time_at = 4;
  Votes votes(0, 1, "t0", nullptr);
  SamplerOptions options = OptionsFor(contestant);
  std::vector<int32_t> marks;
  options.plan.on_samples = [&](const v1::SampleChunk& chunk) {
    marks.insert(marks.end(), chunk.marks().begin(), chunk.marks().end());
  };
  Sampler sampler(options, contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_TRUE(sampler.wrong());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_UNSPECIFIED);
  EXPECT_THAT(marks, ElementsAre(kWarmup, kKept, kKept, kNoTime));
}

TEST(SamplerTest, InputsChangeAndRowsOfBothAreKept) {
  for (uint64_t secret = 0; secret < 30; ++secret) {
    FakeContestant contestant(absl::Milliseconds(10));
    Votes votes(0, 1, "t0", nullptr);
    SamplerOptions options = OptionsFor(contestant);
    options.plan.secret = secret;
    Sampler sampler(options, contestant, votes);
    ASSERT_TRUE(SampleAlone(sampler).ok());
    ASSERT_GE(contestant.inputs_set.size(), 2U);
    EXPECT_EQ(contestant.inputs_set[0], 0);
    EXPECT_EQ(contestant.inputs_set[1], 1);
    ASSERT_EQ(contestant.kept.size(), static_cast<size_t>(kSlots)) << secret;
    EXPECT_EQ(contestant.kept[kFirstInputsSlot].second, 0);
    EXPECT_EQ(contestant.kept[kChangedInputsSlot].second, 1);
    EXPECT_EQ(contestant.kept[kLastSlot].first, contestant.iterations - 1);
    // Every iteration was examined, with the inputs that it had.
    ASSERT_EQ(contestant.examined.size(), static_cast<size_t>(contestant.iterations));
  }
}

TEST(SamplerTest, WhichIterationChangesInputsIsDrawn) {
  std::set<int64_t> changes;
  for (uint64_t secret = 0; secret < 60; ++secret) {
    FakeContestant contestant(absl::Milliseconds(10));
    Votes votes(0, 1, "t0", nullptr);
    SamplerOptions options = OptionsFor(contestant);
    options.plan.secret = secret;
    Sampler sampler(options, contestant, votes);
    ASSERT_TRUE(SampleAlone(sampler).ok());
    for (const auto& [iteration, inputs] : contestant.examined) {
      if (inputs == 1) {
        changes.insert(iteration);
        break;
      }
    }
  }
  // One warm-up iteration, then the second to the tenth of those that count.
  EXPECT_THAT(changes, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(SamplerTest, TrialThatStopsEarlyStillSeesChangedInputs) {
  FakeContestant contestant(absl::Seconds(6));
  Votes votes(0, 1, "t0", nullptr);
  SamplerOptions options = OptionsFor(contestant);
  options.plan.limits.max_time = absl::Seconds(10);
  options.plan.secret = 3;
  Sampler sampler(options, contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_MAX_TIME);
  EXPECT_THAT(contestant.inputs_set, ElementsAre(0, 1));
  EXPECT_EQ(contestant.kept[kChangedInputsSlot].second, 1);
  EXPECT_EQ(sampler.planner().kept_seconds().size(), 1U);  // the last one is not measured
}

TEST(SamplerTest, VerifyOnlyTimesNothing) {
  FakeContestant contestant(absl::Milliseconds(10));
  Votes votes(0, 1, "t0", nullptr);
  SamplerOptions options = OptionsFor(contestant);
  options.plan.verify_only = true;
  Sampler sampler(options, contestant, votes);
  ASSERT_TRUE(SampleAlone(sampler).ok());
  EXPECT_EQ(sampler.stop_reason(), v1::STOP_REASON_VERIFY_ONLY);
  EXPECT_EQ(contestant.iterations, 3);
  EXPECT_THAT(contestant.inputs_set, ElementsAre(0, 1));
  EXPECT_EQ(contestant.kept.size(), static_cast<size_t>(kSlots));
  EXPECT_THAT(sampler.planner().kept_seconds(), testing::IsEmpty());
}

// Takes so many samples of a trial, and looks at each piece of what all ranks report.
void TakeRawSamples(int ranks, int64_t samples) {
  int64_t seconds = 0, iterations = 0;
  PlannerOptions options;
  options.limits = {.max_samples = samples, .max_time = absl::Hours(1), .precision = -1};
  options.on_samples = [&](const v1::SampleChunk& chunk) {
    EXPECT_LE(chunk.ByteSizeLong(), size_t{1} << 20);
    EXPECT_LE(chunk.seconds_size(), kMostSecondsOfChunk);
    EXPECT_EQ(chunk.first(), iterations);
    iterations += chunk.marks_size();
    seconds += chunk.seconds_size();
  };
  BatchPlanner planner(options);
  v1::BatchOrder order = planner.First();
  int64_t n = 0;
  while (order.iterations() > 0) {
    v1::BatchReport report;
    for (int64_t i = 0; i < order.iterations(); ++i) {
      report.add_seconds(1e-6 * static_cast<double>(1 + ++n % 3));
      report.add_throttled(0);
    }
    report.set_batch_seconds(1e-6);
    const std::vector<v1::BatchReport> reports(static_cast<size_t>(ranks), report);
    order = planner.Next(reports).value();
  }
  // One more sizes the batches.
  EXPECT_EQ(iterations, samples + 1);
  EXPECT_EQ(seconds, ranks * (samples + 1));
}

TEST(SamplerTest, FourMillionRawSamplesLeaveInPiecesBelowAMegabyte) {  // Case V3
  TakeRawSamples(/*ranks=*/8, 500'000);
}

TEST(SamplerTest, RawSamplesOfThousandsOfRanksLeaveInPiecesBelowAMegabyte) {
  TakeRawSamples(/*ranks=*/4'096, 100);
}

TEST(SamplerTest, ReportsThatDoNotFitTheOrderAreAnError) {
  BatchPlanner planner({});
  ASSERT_EQ(planner.First().iterations(), 1);
  const std::vector<v1::BatchReport> reports(2);
  const absl::Status status = planner.Next(reports).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 reports 0 iterations"));
}

TEST(RoundOrderTest, IsAPermutationThatChangesByRoundAndNotByRank) {
  std::set<std::vector<size_t>> orders;
  for (int64_t round = 0; round < 20; ++round) {
    std::vector<size_t> order = RoundOrder(5, 42, round);
    EXPECT_EQ(order, RoundOrder(5, 42, round));
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
  }
  EXPECT_GT(orders.size(), 10U);
}

}  // namespace
}  // namespace lcab::measurement
