// The clock of a GPU over a stretch of work, from what its multiprocessors counted.

#ifndef LCAB_DEVICE_CUDA_CLOCK_RATE_H_
#define LCAB_DEVICE_CUDA_CLOCK_RATE_H_

#include <cstdint>
#include <span>

namespace lcab::cuda {

// What one multiprocessor counted so far; zero where it was not read.
struct alignas(16) ClockStamp {
  uint64_t cycles = 0;
  uint64_t nanoseconds = 0;
};

// Cycles a second between two readings of the same multiprocessors, in the same order: the median
// of those that were read both times and whose clock went on. 0: unknown, none was.
double ClockHz(std::span<const ClockStamp> before, std::span<const ClockStamp> after);

}  // namespace lcab::cuda

#endif  // LCAB_DEVICE_CUDA_CLOCK_RATE_H_
