#include "device/cuda/clock_rate.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lcab::cuda {

double ClockHz(std::span<const ClockStamp> before, std::span<const ClockStamp> after) {
  std::vector<double> rates;
  for (size_t m = 0; m < std::min(before.size(), after.size()); ++m) {
    const ClockStamp& from = before[m];
    const ClockStamp& to = after[m];
    if (from.nanoseconds == 0 || to.nanoseconds <= from.nanoseconds || to.cycles <= from.cycles) {
      continue;
    }
    rates.push_back(static_cast<double>(to.cycles - from.cycles) * 1e9 /
                    static_cast<double>(to.nanoseconds - from.nanoseconds));
  }
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

}  // namespace lcab::cuda
