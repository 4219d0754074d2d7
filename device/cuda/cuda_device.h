// GPUs of this machine as devices. In a build without CUDA, and where there is no driver or no GPU,
// they are absent for a reason in words, and nothing here fails.
//
//   for (const CudaDeviceProperties& gpu : ListCudaDevices().devices) ...
//   std::unique_ptr<Device> device = MakeCudaDevice({.index = 0}).value();

#ifndef LCAB_DEVICE_CUDA_CUDA_DEVICE_H_
#define LCAB_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace lcab {

// What CUDA says of a device, without a context on it.
struct CudaDeviceProperties {
  int index = 0;           // among those that this process sees (CUDA_VISIBLE_DEVICES)
  std::string uuid;        // "GPU-8-4-4-4-12"
  std::string model;       // "NVIDIA H200"
  std::string pci_bus_id;  // "00000000:1B:00.0"
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_capability = 0;  // 90
  int64_t l2_bytes = 0;
  double top_clock_hz = 0;
  int64_t driver_cuda_version = 0;   // 13000: the newest CUDA that the driver serves
  int64_t runtime_cuda_version = 0;  // of this build
};

struct CudaDevices {
  std::vector<CudaDeviceProperties> devices;
  std::string reason;  // in words, when there is none
};
// Takes a second where the driver has to be loaded.
CudaDevices ListCudaDevices();

// Floating-point operations a second that no code on the device can exceed: dense products of bf16
// in its matrix units, at its top clock. 0 where the architecture is unknown.
double CudaPeakFlops(int compute_capability, int multiprocessors, double top_clock_hz);

struct CudaDeviceOptions {
  int index = 0;
  // Limit of allocations; 0: what is free when the device is made, less what CUDA and libraries
  // take for themselves.
  int64_t memory_bytes = 0;
};
// Unimplemented: not in this build. Unavailable: no driver, or no such device. Memory is taken
// plainly (cudaMalloc), never as managed memory.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& options);

}  // namespace lcab

#endif  // LCAB_DEVICE_CUDA_CUDA_DEVICE_H_
