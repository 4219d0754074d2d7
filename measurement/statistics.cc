#include "measurement/statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lcab::measurement {

std::vector<double> Sorted(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double Quantile(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double share = position - static_cast<double>(below);
  return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}

double Median(std::span<const double> sorted) { return Quantile(sorted, 0.5); }

double BinomialHalfCdf(int64_t n, int64_t k) {
  if (k < 0) return 0;
  if (k >= n) return 1;
  // Summed over the smaller tail, where terms fall away from the first one.
  if (2 * k >= n) return 1 - BinomialHalfCdf(n, n - k - 1);
  const auto real = [](int64_t x) { return static_cast<long double>(x); };
  const long double log_term = std::lgamma(real(n + 1)) - std::lgamma(real(k + 1)) -
                               std::lgamma(real(n - k + 1)) -
                               real(n) * std::numbers::ln2_v<long double>;
  long double term = std::exp(log_term);
  long double sum = 0;
  for (int64_t i = k; i >= 0 && term > sum * 1e-20L; --i) {
    sum += term;
    term *= real(i) / real(n - i + 1);
  }
  return static_cast<double>(sum);
}

MedianRanks RanksOfMedian(int64_t n, double confidence) {
  const auto reached = [n](int64_t low) { return 1 - 2 * BinomialHalfCdf(n, low - 1); };
  // The confidence falls with `low`: find the last that still has enough.
  int64_t low = 1;
  int64_t beyond = n / 2 + 1;
  while (beyond - low > 1) {
    const int64_t middle = low + (beyond - low) / 2;
    (reached(middle) >= confidence ? low : beyond) = middle;
  }
  // One sample encloses nothing.
  return {low, n + 1 - low, std::max(0.0, reached(low))};
}

MedianInterval IntervalOfMedian(std::span<const double> sorted, double confidence) {
  const MedianRanks ranks = RanksOfMedian(static_cast<int64_t>(sorted.size()), confidence);
  return {Median(sorted), sorted[static_cast<size_t>(ranks.low - 1)],
          sorted[static_cast<size_t>(ranks.high - 1)], ranks.confidence};
}

}  // namespace lcab::measurement
