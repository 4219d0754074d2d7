#include "measurement/stopping.h"

#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

constexpr absl::Duration kEarly = absl::ZeroDuration();

// Alternates about a median of 1 by +-spread.
void AddSpread(StoppingCriterion& criterion, int count, double spread) {
  for (int i = 0; i < count; ++i) criterion.AddSample(i % 2 == 0 ? 1 + spread : 1 - spread);
}

TEST(StoppingTest, EqualSamplesStopAtTheMinimum) {
  MedianPrecision criterion({.min_samples = 10});
  AddSpread(criterion, 9, 0);
  EXPECT_EQ(criterion.Decide(kEarly), std::nullopt);
  AddSpread(criterion, 1, 0);
  EXPECT_EQ(criterion.Decide(kEarly), StopReason::kPrecision);
}

TEST(StoppingTest, PrecisionNeedsTheConfidenceThatWasAsked) {
  // Five equal samples have an interval of width 0, but it holds the median in 93.75% only.
  MedianPrecision criterion({.min_samples = 1});
  AddSpread(criterion, 5, 0);
  EXPECT_EQ(criterion.Decide(kEarly), std::nullopt);
  AddSpread(criterion, 1, 0);
  EXPECT_EQ(criterion.Decide(kEarly), StopReason::kPrecision);
}

TEST(StoppingTest, PrecisionIsTheHalfWidthAsAShareOfTheMedian) {
  MedianPrecision narrow({.precision = 0.02}), wide({.precision = 0.02});
  AddSpread(narrow, 20, 0.0199);
  AddSpread(wide, 20, 0.0201);
  EXPECT_EQ(narrow.Decide(kEarly), StopReason::kPrecision);
  EXPECT_EQ(wide.Decide(kEarly), std::nullopt);
}

TEST(StoppingTest, CapInTimeHoldsBeforeTheMinimum) {
  MedianPrecision criterion({.min_samples = 10, .max_time = absl::Seconds(5)});
  EXPECT_EQ(criterion.Decide(absl::Seconds(6)), std::nullopt);  // a first sample is always taken
  criterion.AddSample(6);
  EXPECT_EQ(criterion.Decide(absl::Seconds(4)), std::nullopt);
  EXPECT_EQ(criterion.Decide(absl::Seconds(5)), StopReason::kMaxTime);
}

TEST(StoppingTest, CapInSamplesCountsDiscardedOnes) {
  MedianPrecision criterion({.max_samples = 30});
  AddSpread(criterion, 20, 0.5);
  for (int i = 0; i < 9; ++i) criterion.AddDiscarded();
  EXPECT_EQ(criterion.Decide(kEarly), std::nullopt);
  criterion.AddDiscarded();
  EXPECT_EQ(criterion.Decide(kEarly), StopReason::kMaxSamples);
}

TEST(StoppingTest, EverySampleThrottledEndsAtTheCapAndSaysSo) {  // Case T1
  MedianPrecision criterion({.max_samples = 1000, .max_time = absl::Seconds(5)});
  for (int i = 0; i < 50; ++i) criterion.AddDiscarded();
  EXPECT_EQ(criterion.Decide(absl::Seconds(4)), std::nullopt);
  EXPECT_EQ(criterion.Decide(absl::Seconds(5)), StopReason::kAllThrottled);
  EXPECT_EQ(criterion.samples(), 0);
  EXPECT_EQ(criterion.discarded(), 50);
}

TEST(StoppingTest, ManySamplesOfANoisyKernelBecomePrecise) {
  // Spread of 20% and a precision of 2%: the interval of the median of a uniform spread narrows as
  // 1/sqrt(n), so it ends far from the cap.
  MedianPrecision criterion({.max_samples = 1'000'000});
  int n = 0;
  while (!criterion.Decide(kEarly).has_value()) {
    criterion.AddSample(0.8 + 0.4 * static_cast<double>((n * 7919) % 1009) / 1009);
    ++n;
  }
  EXPECT_EQ(criterion.Decide(kEarly), StopReason::kPrecision);
  EXPECT_GT(n, 50);
  EXPECT_LT(n, 2000);
}

}  // namespace
}  // namespace lcab::measurement
