#include "device/cuda/cuda_stream.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "device/cuda/clock_stamp.h"
#include "device/cuda/cuda_status.h"

namespace lcab::cuda {
namespace {

// Synchronize() looks again and again for so long before it sleeps between looks: kernels of
// microseconds are seen at once, long ones cost no core.
constexpr absl::Duration kSpin = absl::Microseconds(200);
constexpr std::chrono::microseconds kNap(20);

CudaStream& AsCudaStream(Stream& stream) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  if (cuda == nullptr) {
    fmt::print(stderr, "lcab: a stream of another device was given to CUDA code\n");
    std::abort();
  }
  return *cuda;
}

}  // namespace

cudaStream_t CudaStreamOf(Stream& stream) { return AsCudaStream(stream).get(); }

absl::StatusOr<UniqueDeviceMemory> AllocateUnaccounted(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (error != cudaSuccess) {
    return ToStatus(error, fmt::format("to allocate {} bytes for measuring", bytes));
  }
  return UniqueDeviceMemory(data);
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(int device) {
  if (absl::Status s = ToStatus(cudaSetDevice(device), "to use the device"); !s.ok()) return s;
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return ToStatus(error, "to make a stream");
  return std::unique_ptr<CudaStream>(new CudaStream(device, UniqueStream(stream)));
}

absl::Status CudaStream::Synchronize(absl::Time deadline) {
  (void)cudaSetDevice(device_);
  const absl::Time start = absl::Now();
  cudaError_t error = cudaSuccess;
  while ((error = cudaStreamQuery(get())) == cudaErrorNotReady) {
    const absl::Time now = absl::Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(fmt::format("the device's stream was not done after {}",
                                                     absl::FormatDuration(now - start)));
    }
    if (now - start > kSpin) std::this_thread::sleep_for(kNap);
  }
  // Not ready is an answer, not a failure, and must not be found below.
  const cudaError_t launch = cudaGetLastError();
  if (error != cudaSuccess) return ToStatus(error, "while the device worked");
  if (launch == cudaSuccess || launch == cudaErrorNotReady) return absl::OkStatus();
  return ToStatus(launch, "a call before this one failed unnoticed");
}

absl::Status CudaStream::Enqueue(std::function<absl::Status()> work) {
  // The current device belongs to the thread.
  if (absl::Status s = ToStatus(cudaSetDevice(device_), "to use the device"); !s.ok()) return s;
  return work();
}

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create() {
  cudaEvent_t event = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return ToStatus(error, "to make an event");
  return std::unique_ptr<CudaEvent>(new CudaEvent(UniqueEvent(event)));
}

absl::Status CudaEvent::Record(Stream& stream) {
  return ToStatus(cudaEventRecord(event_.get(), CudaStreamOf(stream)), "to record an event");
}

absl::Status CudaEvent::Wait(Stream& stream) {
  return ToStatus(cudaStreamWaitEvent(CudaStreamOf(stream), event_.get(), 0),
                  "to wait for an event");
}

absl::StatusOr<std::unique_ptr<CudaTimer>> CudaTimer::Create(int multiprocessors,
                                                             OnClock on_clock) {
  std::unique_ptr<CudaTimer> timer(new CudaTimer(multiprocessors, std::move(on_clock)));
  for (UniqueEvent* event : {&timer->start_, &timer->stop_}) {
    cudaEvent_t raw = nullptr;
    const cudaError_t error = cudaEventCreate(&raw);
    if (error != cudaSuccess) return ToStatus(error, "to make a timer");
    event->reset(raw);
  }
  if (absl::Status s = ToStatus(timer->gate_.Init(), "to make a timer"); !s.ok()) return s;
  absl::StatusOr<UniqueDeviceMemory> stamps =
      AllocateUnaccounted(2 * multiprocessors * int64_t{sizeof(ClockStamp)});
  if (!stamps.ok()) return stamps.status();
  timer->stamps_ = *std::move(stamps);
  return timer;
}

absl::Status CudaTimer::Start(Stream& stream) {
  const cudaStream_t raw = CudaStreamOf(stream);
  auto* stamps = static_cast<ClockStamp*>(stamps_.get());
  const size_t bytes = 2 * static_cast<size_t>(multiprocessors_) * sizeof(ClockStamp);
  cudaError_t error = cudaMemsetAsync(stamps, 0, bytes, raw);
  if (error == cudaSuccess) error = gate_.Close(raw);
  if (error == cudaSuccess) error = ReadClocks(stamps, multiprocessors_, raw);
  if (error == cudaSuccess) error = cudaEventRecord(start_.get(), raw);
  return ToStatus(error, "to start a timer");
}

absl::Status CudaTimer::Stop(Stream& stream) {
  const cudaStream_t raw = CudaStreamOf(stream);
  cudaError_t error = cudaEventRecord(stop_.get(), raw);
  if (error == cudaSuccess) {
    error = ReadClocks(static_cast<ClockStamp*>(stamps_.get()) + multiprocessors_, multiprocessors_,
                       raw);
  }
  gate_.Open();
  return ToStatus(error, "to stop a timer");
}

absl::StatusOr<absl::Duration> CudaTimer::Elapsed() {
  float milliseconds = 0;
  cudaError_t error = cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get());
  if (error != cudaSuccess) return ToStatus(error, "to read a timer");
  if (!(milliseconds > 0)) {
    return absl::InternalError(
        fmt::format("the device's timer gave {} ms, which is no time", milliseconds));
  }
  const auto count = static_cast<size_t>(multiprocessors_);
  std::vector<ClockStamp> before(count);
  std::vector<ClockStamp> after(count);
  const auto* stamps = static_cast<const ClockStamp*>(stamps_.get());
  const size_t bytes = count * sizeof(ClockStamp);
  error = cudaMemcpy(before.data(), stamps, bytes, cudaMemcpyDeviceToHost);
  if (error == cudaSuccess) {
    error = cudaMemcpy(after.data(), stamps + count, bytes, cudaMemcpyDeviceToHost);
  }
  if (error != cudaSuccess) return ToStatus(error, "to read the device's clocks");
  on_clock_(before, after);
  return absl::Milliseconds(double{milliseconds});
}

}  // namespace lcab::cuda
