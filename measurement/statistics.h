// Statistics of measured durations, as free functions over ranges: quantiles and the confidence
// interval of the median. None assumes a distribution.

#ifndef LCAB_MEASUREMENT_STATISTICS_H_
#define LCAB_MEASUREMENT_STATISTICS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lcab::measurement {

std::vector<double> Sorted(std::span<const double> values);

// The q-quantile, 0 <= q <= 1, of ascending, non-empty values: at position q * (n - 1), linear
// between neighbours (definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages",
// 1996; the default of R and numpy).
double Quantile(std::span<const double> sorted, double q);
double Median(std::span<const double> sorted);

// P(B <= k) for B ~ Binomial(n, 1/2). 0 for k < 0. Relative error below 1e-9 for n up to 1e8, where
// a long double has 64 bits.
double BinomialHalfCdf(int64_t n, int64_t k);

// Which order statistics enclose the median.
struct MedianRanks {
  int64_t low = 0;        // 1-based rank of the lower end
  int64_t high = 0;       // n + 1 - low
  double confidence = 0;  // that the interval holds the median: 1 - 2 P(B < low)
};

// The narrowest symmetric pair of ranks with at least the confidence asked, 0 < confidence < 1,
// for n >= 1 samples. With too few samples for it the ranks are 1 and n and `confidence` says what
// those give: n = 5 reaches 0.9375 at most, n = 6 reaches 0.96875. (David and Nagaraja, "Order
// Statistics", section 7.1.)
MedianRanks RanksOfMedian(int64_t n, double confidence);

struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
  double confidence = 0;  // reached; less than asked when there are too few samples
};
// Of ascending, non-empty values.
MedianInterval IntervalOfMedian(std::span<const double> sorted, double confidence);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_STATISTICS_H_
