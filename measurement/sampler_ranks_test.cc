// Several ranks that sample one trial: they stop together, whatever one of them meets.

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

}  // namespace
}  // namespace lcab::measurement
