// What a CUDA error means to whoever called: CUDA's own name and words, under the code that decides
// what becomes of the trial.

#ifndef LCAB_DEVICE_CUDA_CUDA_STATUS_H_
#define LCAB_DEVICE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace lcab::cuda {

// Whether the context is lost: every later call of this process on that device fails as well.
bool IsSticky(cudaError_t error);

// Ok for cudaSuccess. `what` was being done: "to launch the forward kernel".
//   ResourceExhausted  no memory on the device
//   Unimplemented      the device cannot do this, or the build has no code for it
//   Unavailable        the device or its driver, not the program: ECC, NVLink, no device
//   Internal           all else; "device error" in the words where it IsSticky()
absl::Status ToStatus(cudaError_t error, std::string_view what);

}  // namespace lcab::cuda

#endif  // LCAB_DEVICE_CUDA_CUDA_STATUS_H_
