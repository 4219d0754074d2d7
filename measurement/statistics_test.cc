#include "measurement/statistics.h"

#include <cmath>
#include <vector>

#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

TEST(QuantileTest, LiesLinearlyBetweenNeighbours) {
  const std::vector<double> values = {1, 2, 4, 8, 16};
  EXPECT_DOUBLE_EQ(Quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.25), 2);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.5), 4);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.2), 1.8);  // position 0.8
  EXPECT_DOUBLE_EQ(Quantile(values, 0.8), 9.6);  // position 3.2
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 16);
}

TEST(QuantileTest, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{1, 3, 10, 11}), 6.5);
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{7}), 7);
}

TEST(QuantileTest, SortedLeavesItsInputAlone) {
  const std::vector<double> values = {3, 1, 2};
  EXPECT_THAT(Sorted(values), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(values, testing::ElementsAre(3, 1, 2));
}

TEST(BinomialTest, AgreesWithPascalsTriangle) {
  for (const int n : {1, 2, 3, 10, 31, 60}) {
    std::vector<double> row = {1};
    for (int i = 0; i < n; ++i) {
      std::vector<double> next(row.size() + 1, 0.0);
      for (size_t j = 0; j < row.size(); ++j) {
        next[j] += row[j] / 2;
        next[j + 1] += row[j] / 2;
      }
      row = next;
    }
    double sum = 0;
    for (int k = 0; k <= n; ++k) {
      sum += row[static_cast<size_t>(k)];
      EXPECT_NEAR(BinomialHalfCdf(n, k), sum, 1e-12) << n << " " << k;
    }
    EXPECT_EQ(BinomialHalfCdf(n, -1), 0);
  }
}

TEST(BinomialTest, LargeNumbersFollowTheNormalLaw) {
  const int64_t n = 100'000'000;  // standard deviation 5,000
  EXPECT_NEAR(BinomialHalfCdf(n, n / 2 - 5'000), 0.158655, 1e-4);
  EXPECT_NEAR(BinomialHalfCdf(n, n / 2 + 5'000), 0.841345, 1e-4);
}

TEST(MedianIntervalTest, KnownRanksAtNinetyFivePercent) {
  // 1 - 2 sum_{k < low} C(n, k) / 2^n, by integer arithmetic.
  struct Case {
    int64_t n, low, high;
    double confidence;
  };
  for (const Case& c :
       {Case{6, 1, 6, 0.96875}, Case{7, 1, 7, 0.984375}, Case{8, 1, 8, 0.9921875},
        Case{9, 2, 8, 0.9609375}, Case{10, 2, 9, 0.978515625}, Case{20, 6, 15, 0.958610},
        Case{30, 10, 21, 0.957226}, Case{100, 40, 61, 0.964800}}) {
    const MedianRanks ranks = RanksOfMedian(c.n, 0.95);
    EXPECT_EQ(ranks.low, c.low) << c.n;
    EXPECT_EQ(ranks.high, c.high) << c.n;
    EXPECT_NEAR(ranks.confidence, c.confidence, 1e-6) << c.n;
  }
}

TEST(MedianIntervalTest, TooFewSamplesSayWhatTheyGive) {
  EXPECT_DOUBLE_EQ(RanksOfMedian(5, 0.95).confidence, 0.9375);
  EXPECT_DOUBLE_EQ(RanksOfMedian(2, 0.95).confidence, 0.5);
  EXPECT_DOUBLE_EQ(RanksOfMedian(1, 0.95).confidence, 0);
  const MedianInterval interval = IntervalOfMedian(std::vector<double>{2, 3, 9}, 0.95);
  EXPECT_EQ(interval.median, 3);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 9);
  EXPECT_DOUBLE_EQ(interval.confidence, 0.75);
}

TEST(MedianIntervalTest, NarrowestPairThatIsConfidentEnough) {
  for (int64_t n = 6; n < 300; ++n) {
    for (const double confidence : {0.5, 0.8, 0.95}) {
      const MedianRanks ranks = RanksOfMedian(n, confidence);
      EXPECT_EQ(ranks.high, n + 1 - ranks.low);
      EXPECT_GE(ranks.confidence, confidence) << n;
      if (2 * (ranks.low + 1) <= n) {
        EXPECT_LT(1 - 2 * BinomialHalfCdf(n, ranks.low), confidence) << n;
      }
    }
  }
}

TEST(MedianIntervalTest, CoversTheMedianAsOftenAsItSays) {
  // 4,000 sets of 21 numbers uniform on [0, 1): the interval should hold 1/2 in 97.3% of them;
  // standard error of that share 0.26%.
  PhiloxStream random(/*seed=*/7, /*purpose=*/1);
  const double confidence = RanksOfMedian(21, 0.95).confidence;
  int covered = 0;
  constexpr int kSets = 4000;
  for (int set = 0; set < kSets; ++set) {
    std::vector<double> values(21);
    for (double& value : values) value = random.Next32() * 0x1p-32;
    const MedianInterval interval = IntervalOfMedian(Sorted(values), 0.95);
    if (interval.low <= 0.5 && 0.5 <= interval.high) ++covered;
  }
  EXPECT_NEAR(static_cast<double>(covered) / kSets, confidence, 0.011);
}

}  // namespace
}  // namespace lcab::measurement
