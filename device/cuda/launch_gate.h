// Holds a stream's work back until all of it has been enqueued, so that events around it time the
// device and not the host that launches. As nvbench's blocking kernel.
//
//   gate->Close(stream);        // the device waits here
//   ... record, launch, record ...
//   gate->Open();               // and goes on

#ifndef LCAB_DEVICE_CUDA_LAUNCH_GATE_H_
#define LCAB_DEVICE_CUDA_LAUNCH_GATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace lcab::cuda {

class LaunchGate {
 public:
  // Work that waits for the device while it is being enqueued would never see the gate open: after
  // this long the device goes on by itself.
  static constexpr uint64_t kLimitNanoseconds = 5'000'000;

  LaunchGate() = default;
  ~LaunchGate();
  LaunchGate(const LaunchGate&) = delete;
  LaunchGate& operator=(const LaunchGate&) = delete;

  // Takes the page of host memory through which the device sees the gate.
  cudaError_t Init();
  cudaError_t Close(cudaStream_t stream);
  void Open();

 private:
  volatile uint32_t* opened_ = nullptr;  // the last Close() that was opened
  uint32_t closed_ = 0;                  // how often Close() was called
};

}  // namespace lcab::cuda

#endif  // LCAB_DEVICE_CUDA_LAUNCH_GATE_H_
