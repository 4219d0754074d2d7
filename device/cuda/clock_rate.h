// The clock of a GPU over a stretch of work, from what its multiprocessors counted.

#ifndef LCAB_DEVICE_CUDA_CLOCK_RATE_H_
#define LCAB_DEVICE_CUDA_CLOCK_RATE_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace lcab::cuda {

// What one multiprocessor counted so far; zero where it was not read.
struct alignas(16) ClockStamp {
  uint64_t cycles = 0;
  uint64_t nanoseconds = 0;
};

// Cycles a second between two readings of the same multiprocessors, in the same order: the median
// of those that were read both times and whose clock went on. 0: unknown, none was.
double ClockHz(std::span<const ClockStamp> before, std::span<const ClockStamp> after);

// The clock of what ran last, from readings before and after each timed call. The counters tick
// coarsely, so short calls are taken together, with what lay between them. Thread-safe.
class ClockMeter {
 public:
  // Shorter than this a rate would be off by more than half a percent.
  static constexpr uint64_t kLeastNanoseconds = 200'000;

  void Add(std::span<const ClockStamp> before, std::span<const ClockStamp> after);
  double hz() const;  // 0: unknown yet

 private:
  mutable std::mutex mutex_;
  std::vector<ClockStamp> from_;  // before the first call that has not counted yet
  double hz_ = 0;
};

}  // namespace lcab::cuda

#endif  // LCAB_DEVICE_CUDA_CLOCK_RATE_H_
