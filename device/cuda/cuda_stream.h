// Streams, events and timers of a CUDA device.
//
//   cudaStream_t raw = cuda::CudaStreamOf(stream);
//   MyKernel<<<blocks, threads, shared, raw>>>(...);

#ifndef LCAB_DEVICE_CUDA_CUDA_STREAM_H_
#define LCAB_DEVICE_CUDA_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "device/cuda/clock_rate.h"
#include "device/cuda/launch_gate.h"
#include "device/device.h"

namespace lcab::cuda {

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
struct EventDeleter {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
struct DeviceMemoryDeleter {
  void operator()(void* data) const { (void)cudaFree(data); }
};
using UniqueStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;
using UniqueEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;
using UniqueDeviceMemory = std::unique_ptr<void, DeviceMemoryDeleter>;

// Device memory outside of what a device accounts for: what measuring needs, not the problem.
absl::StatusOr<UniqueDeviceMemory> AllocateUnaccounted(int64_t bytes);

// Runs work at once in the calling thread: it enqueues on the device and returns. What fails on the
// device shows at Synchronize().
class CudaStream : public Stream {
 public:
  // Non-blocking: it waits for no other stream, nor the legacy one for it.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(int device);

  // Also reports, once, a launch that failed before and was not checked.
  absl::Status Synchronize(absl::Time deadline) override;
  absl::Status Enqueue(std::function<absl::Status()> work) override;

  cudaStream_t get() const { return stream_.get(); }
  int device() const { return device_; }

 private:
  CudaStream(int device, UniqueStream stream) : device_(device), stream_(std::move(stream)) {}

  const int device_;
  UniqueStream stream_;
};

class CudaEvent : public Event {
 public:
  static absl::StatusOr<std::unique_ptr<CudaEvent>> Create();
  absl::Status Record(Stream& stream) override;
  absl::Status Wait(Stream& stream) override;

 private:
  explicit CudaEvent(UniqueEvent event) : event_(std::move(event)) {}
  UniqueEvent event_;
};

// What lies between Start() and Stop() is held back until all of it is enqueued (launch_gate.h).
// Reads the device's clocks just outside of it, and tells `on_clock` (readings before and after)
// from Elapsed().
class CudaTimer : public Timer {
 public:
  using OnClock = std::function<void(const std::vector<ClockStamp>& before,
                                     const std::vector<ClockStamp>& after)>;
  static absl::StatusOr<std::unique_ptr<CudaTimer>> Create(int multiprocessors, OnClock on_clock);
  absl::Status Start(Stream& stream) override;
  absl::Status Stop(Stream& stream) override;
  absl::StatusOr<absl::Duration> Elapsed() override;

 private:
  CudaTimer(int multiprocessors, OnClock on_clock)
      : multiprocessors_(multiprocessors), on_clock_(std::move(on_clock)) {}

  const int multiprocessors_;
  const OnClock on_clock_;
  UniqueEvent start_;
  UniqueEvent stop_;
  LaunchGate gate_;
  UniqueDeviceMemory stamps_;  // of all multiprocessors, before and after
};

// The stream as CUDA knows it. `stream` is one of a CUDA device: for any other the program ends,
// because work on a stream that was not meant would go unnoticed.
cudaStream_t CudaStreamOf(Stream& stream);

}  // namespace lcab::cuda

#endif  // LCAB_DEVICE_CUDA_CUDA_STREAM_H_
