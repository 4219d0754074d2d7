// GPUs in a build without CUDA.

#include "absl/status/status.h"
#include "device/cuda/cuda_device.h"

namespace lcab {
namespace {

constexpr char kReason[] =
    "this build has no CUDA (it was configured without nvcc, or with LCAB_CUDA=OFF)";

}  // namespace

CudaDevices ListCudaDevices() { return {.devices = {}, .reason = kReason}; }

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& /*options*/) {
  return absl::UnimplementedError(kReason);
}

}  // namespace lcab
