// A device: the thing that owns memory, runs work on streams and tells time. A CPU slot is a
// device like a GPU; nothing above this folder asks which it has, beyond what DeviceInfo says.
//
//   std::unique_ptr<Device> device = MakeCpuDevice({.threads = 2}).value();
//   Memory memory = device->Allocate(1 << 20).value();
//   device->Fill(memory.data(), memory.bytes(), 0xFF, device->stream());

#ifndef LCAB_DEVICE_DEVICE_H_
#define LCAB_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lcab {

enum class DeviceKind { kCpu, kCuda };

// What a kernel may ask about the device before it says whether it supports a problem.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string id;              // "cpu:0", "GPU-<uuid>"
  std::string model;           // "AMD EPYC 9B14", "NVIDIA H200"
  int threads = 1;             // CPU: worker threads; GPU: multiprocessors
  int compute_capability = 0;  // GPU: 90 for sm_90; CPU: 0
  int64_t memory_bytes = 0;    // that LCAB may use
  // What else decides its figures, as NAME=value: "driver=580.159.04", "power_limit_watts=700".
  std::vector<std::string> facts;
  double peak_flops = 0;  // arithmetic bound per second for the widest supported type; 0: unknown
};

class Device;

// Device memory with an owner. Move only; returns to its device.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  friend class Device;
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Work in order. On a CPU the compute stream runs work in the calling thread (kernels spread it
// over the device's threads): it is complete when the call returns, and its error is what the call
// returns. An asynchronous stream, from MakeStream(), has a thread of its own.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits until all work enqueued so far is done, at most until the deadline: DeadlineExceeded.
  // Reports the first error of asynchronous work since the last call; what was enqueued behind that
  // error has not run.
  virtual absl::Status Synchronize(absl::Time deadline) = 0;
  // Runs host code in stream order: CPU kernels, transports, test hooks.
  virtual absl::Status Enqueue(std::function<absl::Status()> work) = 0;
};

// A mark in a stream, which other streams can wait for.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::Status Record(Stream& stream) = 0;
  // Later work of `stream` waits for what was last recorded; nothing, if nothing was. An error of
  // the recorded stream becomes an error of this one. A wait that outlasts the device's limit is
  // DeadlineExceeded.
  virtual absl::Status Wait(Stream& stream) = 0;
};

// Time between two points of one stream, as the device sees it.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual absl::Status Start(Stream& stream) = 0;
  virtual absl::Status Stop(Stream& stream) = 0;
  // After the stream is synchronised. Never negative or zero: then it is Internal and no sample.
  virtual absl::StatusOr<absl::Duration> Elapsed() = 0;
};

// What the device looked like while samples were taken.
struct Conditions {
  double clock_hz = 0;           // 0: unknown
  double expected_clock_hz = 0;  // 0: unknown
  double temperature_celsius = 0;
  double power_watts = 0;
  double energy_joules = 0;  // a counter: differences are what was used; 0: unknown
  bool throttled = false;    // for thermal, hardware-slowdown or power-brake reasons
  bool power_capped = false;
  std::string reasons;  // in words
};

// Runs `body(part)` for part in [0, parts) on the device's threads and the caller's; returns when
// all are done. Parts are handed out one by one, so uneven parts balance. `thread` is in
// [0, threads()) and no two parts that run at the same time share one. A Run() within a part runs
// its parts in turn in that thread. CPU devices only.
class Workers {
 public:
  virtual ~Workers() = default;
  virtual int threads() const = 0;
  virtual void Run(int64_t parts, const std::function<void(int64_t part, int thread)>& body) = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // ResourceExhausted names bytes asked and bytes left. Aligned to 256 bytes. Contents are
  // undefined (a CPU device fills them with NaN). Memory goes back before its device does.
  absl::StatusOr<Memory> Allocate(int64_t bytes);
  int64_t allocated_bytes() const;
  int64_t peak_bytes() const;
  void ResetPeak();

  virtual Stream& stream() = 0;                                      // the compute stream
  virtual absl::StatusOr<std::unique_ptr<Stream>> MakeStream() = 0;  // asynchronous
  virtual absl::StatusOr<std::unique_ptr<Event>> MakeEvent() = 0;
  virtual absl::StatusOr<std::unique_ptr<Timer>> MakeTimer() = 0;

  // Memory operations in stream order. Host pointers need not be pinned.
  virtual absl::Status Fill(void* to, int64_t bytes, uint8_t byte, Stream& stream) = 0;
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, Stream& stream) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from, int64_t bytes, Stream& stream) = 0;
  virtual absl::Status CopyFromHost(void* to, const void* from, int64_t bytes, Stream& stream) = 0;

  // Makes the next reads come from memory, not caches: before each cold sample.
  virtual absl::Status FlushCaches(Stream& stream) = 0;
  virtual absl::StatusOr<Conditions> ReadConditions() = 0;

  // An error of the device that every later call of this process meets as well, such as an illegal
  // access on a GPU: the process must end for the device to be used again.
  virtual absl::Status Health() { return absl::OkStatus(); }

  // CPU only; nullptr elsewhere.
  virtual Workers* workers() { return nullptr; }

 protected:
  virtual absl::StatusOr<std::byte*> DoAllocate(int64_t bytes) = 0;
  virtual void DoFree(std::byte* data, int64_t bytes) = 0;

 private:
  friend class Memory;
  void Free(std::byte* data, int64_t bytes);

  mutable std::mutex memory_mutex_;
  int64_t allocated_ = 0;
  int64_t peak_ = 0;
};

struct CpuDeviceOptions {
  int index = 0;             // names the device "cpu:<index>"
  int threads = 1;           // worker threads, the caller's among them
  int64_t memory_bytes = 0;  // limit of allocations; 0: three quarters of the machine's memory
  absl::Duration event_wait_limit = absl::Minutes(10);  // no stream waits longer for an event
};
// InvalidArgument says which option is out of range; ResourceExhausted when threads cannot start.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const CpuDeviceOptions& options);

}  // namespace lcab

#endif  // LCAB_DEVICE_DEVICE_H_
