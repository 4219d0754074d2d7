#include "measurement/sampler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "measurement/rendezvous_for_test.h"

namespace lcab::measurement {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Iterations of a given length on a clock of its own; notes what it is asked to do.
class FakeContestant : public Contestant {
 public:
  explicit FakeContestant(absl::Duration iteration, int rank = 0)
      : iteration_(iteration), findings_(rank) {}

  absl::Status SetInputs(int inputs, absl::Time) override {
    inputs_set.push_back(inputs);
    return absl::OkStatus();
  }
  absl::StatusOr<double> RunIteration(int64_t calls, absl::Time) override {
    ++iterations;
    calls_seen.insert(calls);
    if (iterations == fails_at) return absl::InternalError("kernel failed");
    now += iteration_ * calls + surroundings;
    if (iterations == no_time_at) {
      findings_.Fail(Part::kHonesty, "no positive time");
      return 0.0;
    }
    return absl::ToDoubleSeconds(iteration_) * (1 + spread * ((iterations * 7) % 11 - 5) / 5.0);
  }
  absl::Status Examine(int64_t iteration, int inputs, absl::Time) override {
    examined.emplace_back(iteration, inputs);
    return absl::OkStatus();
  }
  absl::Status Keep(int slot, int inputs, absl::Time) override {
    kept[slot] = {iterations - 1, inputs};
    return absl::OkStatus();
  }
  absl::StatusOr<Conditions> ReadConditions() override {
    Conditions conditions;
    conditions.expected_clock_hz = 3e9;
    conditions.clock_hz = iterations - 1 < slow_from || iterations - 1 >= slow_until ? 3e9 : 1.8e9;
    return conditions;
  }
  void Abort(std::string_view reason) override { abort_reason = reason; }
  Findings& findings() override { return findings_; }
  double shortest_sample_seconds() const override { return shortest; }

  absl::Time now = absl::UnixEpoch();
  absl::Duration surroundings = absl::ZeroDuration();
  double spread = 0, shortest = 0;
  int64_t fails_at = -1, no_time_at = -1;
  int64_t slow_from = 0, slow_until = 0;  // iterations with a clock at 60%
  int64_t iterations = 0;
  std::set<int64_t> calls_seen;
  std::string abort_reason;
  std::vector<int> inputs_set;
  std::vector<std::pair<int64_t, int>> examined;
  std::map<int, std::pair<int64_t, int>> kept;  // slot -> iteration, inputs

 private:
  absl::Duration iteration_;
  Findings findings_;
};

SamplerOptions OptionsFor(FakeContestant& contestant) {
  SamplerOptions options;
  options.now = [&contestant] { return contestant.now; };
  options.pause = [&contestant](absl::Duration pause) { contestant.now += pause; };
  return options;
}

// Samples on one rank until done.
absl::Status SampleAlone(Sampler& sampler) {
  while (true) {
    const absl::StatusOr<bool> done = sampler.RunBatch();
    if (!done.ok()) return done.status();
    if (*done) return sampler.KeepLast(absl::InfiniteFuture());
  }
}

// Samples on several ranks, a thread each; returns each rank's status.
std::vector<absl::Status> SampleTogether(
    std::vector<std::unique_ptr<FakeContestant>>& contestants,
    const std::function<void(int rank, SamplerOptions&)>& adjust,
    const std::function<void(int rank, const Sampler&)>& look) {
  FakeRendezvous rendezvous;
  const int ranks = static_cast<int>(contestants.size());
  std::vector<absl::Status> statuses(contestants.size());
  std::vector<std::thread> threads(contestants.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads[static_cast<size_t>(rank)] = std::thread([&, rank] {
      FakeContestant& contestant = *contestants[static_cast<size_t>(rank)];
      Votes votes(rank, ranks, "t0", &rendezvous);
      SamplerOptions options = OptionsFor(contestant);
      adjust(rank, options);
      Sampler sampler(options, contestant, votes);
      statuses[static_cast<size_t>(rank)] = SampleAlone(sampler);
      look(rank, sampler);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<std::unique_ptr<FakeContestant>> FourContestants(absl::Duration iteration) {
  std::vector<std::unique_ptr<FakeContestant>> contestants;
  contestants.reserve(4);
  for (int rank = 0; rank < 4; ++rank) {
    contestants.push_back(std::make_unique<FakeContestant>(iteration, rank));
  }
  return contestants;
}

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

TEST(SamplerTest, SampleIsTheSlowestRanks) {
  auto contestants = FourContestants(absl::Milliseconds(20));
  contestants[2] = std::make_unique<FakeContestant>(absl::Milliseconds(30), 2);
  std::vector<double> kept;
  std::vector<v1::SampleChunk> chunks;
  const auto statuses = SampleTogether(
      contestants,
      [&](int rank, SamplerOptions& options) {
        if (rank == 0) {
          options.plan.on_samples = [&](v1::SampleChunk chunk) {
            chunks.push_back(std::move(chunk));
          };
        }
      },
      [&](int rank, const Sampler& sampler) {
        if (rank == 0) kept = sampler.planner().kept_seconds();
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_THAT(kept, Each(testing::DoubleEq(0.03)));
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].ranks(), 4);
  EXPECT_EQ(chunks[0].seconds_size(), 4 * chunks[0].marks_size());
  EXPECT_DOUBLE_EQ(chunks[0].seconds(1), 0.02);  // rank 1 of the first iteration
  EXPECT_DOUBLE_EQ(chunks[0].seconds(2), 0.03);
}

TEST(SamplerTest, CapThatExpiresOnOneRankStopsAllAtTheSameIteration) {  // Case C5
  auto contestants = FourContestants(absl::Milliseconds(10));
  for (auto& contestant : contestants) contestant->spread = 0.5;
  std::vector<v1::StopReason> reasons(4);
  const auto statuses = SampleTogether(
      contestants,
      [](int rank, SamplerOptions& options) {
        options.plan.limits = {.max_time = absl::Hours(1), .precision = -1};
        if (rank == 2) {
          options.claim_elapsed = [](absl::Duration elapsed, int64_t timed) {
            return timed >= 37 ? absl::Hours(2) : elapsed;
          };
        }
      },
      [&](int rank, const Sampler& sampler) {
        reasons[static_cast<size_t>(rank)] = sampler.stop_reason();
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_THAT(reasons, Each(v1::STOP_REASON_MAX_TIME));
  for (const auto& contestant : contestants) {
    EXPECT_EQ(contestant->iterations, 1 + 37);  // and one that sizes the batches
  }
}

TEST(SamplerTest, IntervalRuleStopsAllAtTheSameIteration) {  // Case C5
  // Rank 3's own samples would never be precise, ranks 0 to 2 would be at once.
  auto contestants = FourContestants(absl::Milliseconds(10));
  contestants[3] = std::make_unique<FakeContestant>(absl::Milliseconds(11), 3);
  contestants[3]->spread = 0.1;
  std::vector<v1::StopReason> reasons(4);
  const auto statuses = SampleTogether(
      contestants, [](int, SamplerOptions&) {},
      [&](int rank, const Sampler& sampler) {
        reasons[static_cast<size_t>(rank)] = sampler.stop_reason();
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_THAT(reasons, Each(v1::STOP_REASON_PRECISION));
  EXPECT_GT(contestants[0]->iterations, 11);
  for (const auto& contestant : contestants) {
    EXPECT_EQ(contestant->iterations, contestants[0]->iterations);
  }
}

TEST(SamplerTest, FailureOfOneRankIsTheStatusOfAll) {
  auto contestants = FourContestants(absl::Milliseconds(10));
  contestants[1]->fails_at = 5;
  std::vector<int> failed_ranks(4);
  const auto statuses = SampleTogether(
      contestants, [](int, SamplerOptions&) {},
      [&](int rank, const Sampler& sampler) {
        failed_ranks[static_cast<size_t>(rank)] = sampler.verdict().rank;
      });
  EXPECT_THAT(statuses, Each(absl::InternalError("kernel failed")));
  EXPECT_THAT(failed_ranks, Each(1));
  EXPECT_EQ(contestants[1]->abort_reason, "kernel failed");
}

TEST(SamplerTest, FindingOnOneRankEndsTheTrialForAll) {
  auto contestants = FourContestants(absl::Milliseconds(10));
  contestants[3]->findings().Fail(Part::kHonesty, "replayed");
  std::vector<int> wrong(4);  // not bool: ranks write at once
  const auto statuses = SampleTogether(
      contestants, [](int, SamplerOptions&) {},
      [&](int rank, const Sampler& sampler) {
        wrong[static_cast<size_t>(rank)] = sampler.wrong() ? 1 : 0;
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_THAT(wrong, Each(1));
}

TEST(SamplerTest, FourMillionRawSamplesLeaveInPiecesBelowAMegabyte) {  // Case V3
  constexpr int kRanks = 8;
  constexpr int64_t kIterations = 500'000;
  int64_t seconds = 0, iterations = 0;
  PlannerOptions options;
  options.limits = {.max_samples = kIterations, .max_time = absl::Hours(1), .precision = -1};
  options.on_samples = [&](const v1::SampleChunk& chunk) {
    EXPECT_LE(chunk.ByteSizeLong(), size_t{1} << 20);
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
    const std::vector<v1::BatchReport> reports(kRanks, report);
    order = planner.Next(reports).value();
  }
  EXPECT_EQ(iterations, kIterations + 1);
  EXPECT_EQ(seconds, kRanks * (kIterations + 1));
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
