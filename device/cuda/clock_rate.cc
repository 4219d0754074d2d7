#include "device/cuda/clock_rate.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lcab::cuda {
namespace {

// From the first reading of a multiprocessor to its last; the longest of all.
uint64_t Span(std::span<const ClockStamp> before, std::span<const ClockStamp> after) {
  uint64_t span = 0;
  for (size_t m = 0; m < std::min(before.size(), after.size()); ++m) {
    if (before[m].nanoseconds == 0 || after[m].nanoseconds <= before[m].nanoseconds) continue;
    span = std::max(span, after[m].nanoseconds - before[m].nanoseconds);
  }
  return span;
}

}  // namespace

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

void ClockMeter::Add(std::span<const ClockStamp> before, std::span<const ClockStamp> after) {
  const std::lock_guard lock(mutex_);
  // A call that is long enough stands for itself, without the pause before it.
  const bool alone = Span(before, after) >= kLeastNanoseconds;
  if (from_.empty() || alone) from_.assign(before.begin(), before.end());
  if (Span(from_, after) < kLeastNanoseconds) return;
  if (const double hz = ClockHz(from_, after); hz > 0) hz_ = hz;
  from_.clear();
}

double ClockMeter::hz() const {
  const std::lock_guard lock(mutex_);
  return hz_;
}

}  // namespace lcab::cuda
