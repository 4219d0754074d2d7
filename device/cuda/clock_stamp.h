// The device's own clocks, read in stream order: cycles of each multiprocessor beside nanoseconds,
// so that the clock of a stretch of work is cycles over time.
//
//   ReadClocks(stamps, multiprocessors, stream);  // before
//   ...
//   ReadClocks(later, multiprocessors, stream);   // after; copy both to the host
//   ClockHz(before, after)                        // device/cuda/clock_rate.h

#ifndef LCAB_DEVICE_CUDA_CLOCK_STAMP_H_
#define LCAB_DEVICE_CUDA_CLOCK_STAMP_H_

#include <cuda_runtime_api.h>

#include "device/cuda/clock_rate.h"

namespace lcab::cuda {

// Writes stamps[m] for each multiprocessor m that runs one of as many one-warp blocks: usually all,
// never promised; one that ran none keeps what was there. `stamps` is device memory.
cudaError_t ReadClocks(ClockStamp* stamps, int multiprocessors, cudaStream_t stream);

}  // namespace lcab::cuda

#endif  // LCAB_DEVICE_CUDA_CLOCK_STAMP_H_
