#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "device/cuda/clock_rate.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/gpu_facts.h"
#include "device/cuda/nvml.h"

namespace lcab {
namespace {

using cuda::CudaStream;
using cuda::ToStatus;

// Left free where no limit is given: what CUDA keeps for stacks and printing, cuBLAS, cuDNN and
// NCCL for themselves.
constexpr int64_t kReserveBytes = int64_t{2} << 30;
// The caches are flushed by writing this many times their size.
constexpr int64_t kFlushFactor = 2;

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
}

std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (size_t n = 0; n < sizeof(uuid.bytes); ++n) {
    if (n == 4 || n == 6 || n == 8 || n == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[n]));
  }
  return text;
}

absl::StatusOr<CudaDeviceProperties> ReadProperties(int device) {
  cudaDeviceProp raw{};
  if (const cudaError_t error = cudaGetDeviceProperties(&raw, device); error != cudaSuccess) {
    return ToStatus(error, fmt::format("to read the properties of GPU {}", device));
  }
  CudaDeviceProperties properties;
  properties.index = device;
  properties.uuid = UuidText(raw.uuid);
  properties.model = raw.name;
  properties.pci_bus_id =
      fmt::format("{:08X}:{:02X}:{:02X}.0", raw.pciDomainID, raw.pciBusID, raw.pciDeviceID);
  properties.memory_bytes = static_cast<int64_t>(raw.totalGlobalMem);
  properties.multiprocessors = raw.multiProcessorCount;
  properties.compute_capability = 10 * raw.major + raw.minor;
  properties.l2_bytes = raw.l2CacheSize;
  properties.top_clock_hz = 1e3 * Attribute(cudaDevAttrClockRate, device);
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) properties.driver_cuda_version = version;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) properties.runtime_cuda_version = version;
  return properties;
}

// Nothing without a driver that answers.
std::optional<NvmlDevice> NvmlOf(const CudaDeviceProperties& properties) {
  const absl::StatusOr<const Nvml*> nvml = Nvml::Get();
  if (!nvml.ok()) return std::nullopt;
  absl::StatusOr<NvmlDevice> device = (*nvml)->DeviceByPciBusId(properties.pci_bus_id);
  if (!device.ok()) return std::nullopt;
  return *std::move(device);
}

class CudaDevice : public Device {
 public:
  CudaDevice(const CudaDeviceProperties& properties, int64_t memory_bytes,
             std::unique_ptr<CudaStream> stream, cuda::UniqueDeviceMemory flush)
      : index_(properties.index),
        flush_bytes_(kFlushFactor * properties.l2_bytes),
        nvml_(NvmlOf(properties)),
        flush_(std::move(flush)),
        compute_(std::move(stream)) {
    info_.kind = DeviceKind::kCuda;
    info_.id = properties.uuid;
    info_.model = properties.model;
    info_.threads = properties.multiprocessors;
    info_.compute_capability = properties.compute_capability;
    info_.memory_bytes = memory_bytes;
    info_.facts = ComparableFacts(properties, ReadGpuFacts(properties));
    info_.peak_flops = CudaPeakFlops(properties.compute_capability, properties.multiprocessors,
                                     properties.top_clock_hz);
    top_clock_hz_ = properties.top_clock_hz;
  }

  const DeviceInfo& info() const override { return info_; }
  Stream& stream() override { return *compute_; }

  absl::StatusOr<std::unique_ptr<Stream>> MakeStream() override {
    absl::StatusOr<std::unique_ptr<CudaStream>> stream = CudaStream::Create(index_);
    if (!stream.ok()) return stream.status();
    return std::unique_ptr<Stream>(*std::move(stream));
  }
  absl::StatusOr<std::unique_ptr<Event>> MakeEvent() override {
    if (absl::Status s = Use(); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<cuda::CudaEvent>> event = cuda::CudaEvent::Create();
    if (!event.ok()) return event.status();
    return std::unique_ptr<Event>(*std::move(event));
  }
  absl::StatusOr<std::unique_ptr<Timer>> MakeTimer() override {
    if (absl::Status s = Use(); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<cuda::CudaTimer>> timer = cuda::CudaTimer::Create(
        info_.threads,
        [this](const auto& before, const auto& after) { clock_.Add(before, after); });
    if (!timer.ok()) return timer.status();
    return std::unique_ptr<Timer>(*std::move(timer));
  }

  absl::Status Fill(void* to, int64_t bytes, uint8_t byte, Stream& stream) override {
    if (absl::Status s = CheckBytes(bytes); !s.ok()) return s;
    if (absl::Status s = Use(); !s.ok()) return s;
    return ToStatus(
        cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), cuda::CudaStreamOf(stream)),
        fmt::format("to fill {} bytes", bytes));
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream& stream) override {
    return CopyAs(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes, Stream& stream) override {
    return CopyAs(to, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  absl::Status CopyFromHost(void* to, const void* from, int64_t bytes, Stream& stream) override {
    return CopyAs(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }

  absl::Status FlushCaches(Stream& stream) override {
    if (absl::Status s = Use(); !s.ok()) return s;
    // Lines that a kernel asked to persist would outlive what is written here.
    if (absl::Status s =
            ToStatus(cudaCtxResetPersistingL2Cache(), "to reset persisting cache lines");
        !s.ok() && s.code() != absl::StatusCode::kUnimplemented) {
      return s;
    }
    return Fill(flush_.get(), flush_bytes_, 0x5A, stream);
  }

  absl::Status Health() override {
    if (absl::Status s = Use(); !s.ok()) return s;
    const cudaError_t error = cudaStreamQuery(compute_->get());
    if (!cuda::IsSticky(error)) return absl::OkStatus();
    return ToStatus(error, "the GPU is lost to this process");
  }

  absl::StatusOr<Conditions> ReadConditions() override {
    Conditions conditions;
    if (nvml_.has_value()) conditions = nvml_->ReadConditions();
    if (conditions.expected_clock_hz <= 0) conditions.expected_clock_hz = top_clock_hz_;
    // As the device counted it while it worked, rather than as it is now that it does not.
    if (const double hz = clock_.hz(); hz > 0) conditions.clock_hz = hz;
    return conditions;
  }

 protected:
  absl::StatusOr<std::byte*> DoAllocate(int64_t bytes) override {
    if (absl::Status s = Use(); !s.ok()) return s;
    void* data = nullptr;
    // A byte at least: memory of no bytes still has an address of its own.
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    const cudaError_t error = cudaMalloc(&data, size);
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // it is told here, and not to be found again
      size_t free = 0;
      size_t total = 0;
      (void)cudaMemGetInfo(&free, &total);
      return absl::ResourceExhaustedError(
          fmt::format("{} has no {} bytes in one piece: {} of its {} are free, though LCAB may use "
                      "{}; see with "
                      "nvidia-smi who has the rest, or lower the device's memory limit",
                      info_.id, bytes, free, total, info_.memory_bytes));
    }
    if (error != cudaSuccess) return ToStatus(error, fmt::format("to allocate {} bytes", bytes));
    // What is read before it was written shows: these bytes are NaN in every dtype. The stream of
    // the copy is the legacy one, of which others know nothing: it is waited for.
    cudaError_t poisoned = cudaMemset(data, 0xFF, size);
    if (poisoned == cudaSuccess) poisoned = cudaStreamSynchronize(nullptr);
    if (poisoned != cudaSuccess) {
      (void)cudaFree(data);
      return ToStatus(poisoned, "to poison fresh memory");
    }
    return static_cast<std::byte*>(data);
  }

  void DoFree(std::byte* data, int64_t /*bytes*/) override {
    (void)cudaSetDevice(index_);
    (void)cudaFree(data);
  }

 private:
  // The current device belongs to the thread, and any thread may call.
  absl::Status Use() const { return ToStatus(cudaSetDevice(index_), "to use the device"); }

  static absl::Status CheckBytes(int64_t bytes) {
    if (bytes >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("cannot fill or copy {} bytes", bytes));
  }

  absl::Status CopyAs(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind,
                      Stream& stream) {
    if (absl::Status s = CheckBytes(bytes); !s.ok()) return s;
    if (absl::Status s = Use(); !s.ok()) return s;
    return ToStatus(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, cuda::CudaStreamOf(stream)),
        fmt::format("to copy {} bytes", bytes));
  }

  const int index_;
  const int64_t flush_bytes_;
  const std::optional<NvmlDevice> nvml_;
  DeviceInfo info_;
  double top_clock_hz_ = 0;
  cuda::ClockMeter clock_;
  cuda::UniqueDeviceMemory flush_;
  std::unique_ptr<CudaStream> compute_;
};

// Free now, less the reserve.
absl::StatusOr<int64_t> DefaultMemoryBytes() {
  size_t free = 0;
  size_t total = 0;
  if (const cudaError_t error = cudaMemGetInfo(&free, &total); error != cudaSuccess) {
    return ToStatus(error, "to ask for free memory");
  }
  const int64_t left = static_cast<int64_t>(free) - kReserveBytes;
  if (left > 0) return left;
  return absl::ResourceExhaustedError(fmt::format(
      "{} of the GPU's {} bytes are free; see with nvidia-smi who has the rest", free, total));
}

}  // namespace

CudaDevices ListCudaDevices() {
  CudaDevices found;
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    (void)cudaGetLastError();
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    // CUDA says the same of an old driver and of none.
    found.reason = driver == 0
                       ? "this machine has no NVIDIA driver, or none that is shown to this process"
                       : fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
    return found;
  }
  for (int device = 0; device < count; ++device) {
    absl::StatusOr<CudaDeviceProperties> properties = ReadProperties(device);
    if (!properties.ok()) {
      found.reason = std::string(properties.status().message());
      continue;
    }
    found.devices.push_back(*std::move(properties));
  }
  if (!found.devices.empty()) {
    found.reason.clear();
  } else if (found.reason.empty()) {
    found.reason = "CUDA_VISIBLE_DEVICES hides every GPU, or there is none";
  }
  return found;
}

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& options) {
  const CudaDevices found = ListCudaDevices();
  const auto properties =
      std::find_if(found.devices.begin(), found.devices.end(),
                   [&](const CudaDeviceProperties& d) { return d.index == options.index; });
  if (properties == found.devices.end()) {
    return absl::UnavailableError(found.devices.empty()
                                      ? fmt::format("there is no GPU: {}", found.reason)
                                      : fmt::format("there is no GPU {}: {} can be used",
                                                    options.index, found.devices.size()));
  }
  if (options.memory_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("a memory limit is positive, or 0 for what is free; it cannot be {} bytes",
                    options.memory_bytes));
  }
  absl::StatusOr<std::unique_ptr<CudaStream>> stream = CudaStream::Create(options.index);
  if (!stream.ok()) return stream.status();
  // Taken now: in the middle of a run it would stall what is measured.
  absl::StatusOr<cuda::UniqueDeviceMemory> flush =
      cuda::AllocateUnaccounted(kFlushFactor * properties->l2_bytes);
  if (!flush.ok()) return flush.status();
  int64_t memory_bytes = options.memory_bytes;
  if (memory_bytes == 0) {
    const absl::StatusOr<int64_t> free = DefaultMemoryBytes();
    if (!free.ok()) return free.status();
    memory_bytes = *free;
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(
      *properties, memory_bytes, *std::move(stream), *std::move(flush)));
}

}  // namespace lcab
