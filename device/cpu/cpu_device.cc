#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "device/cpu/cpu_conditions.h"
#include "device/cpu/cpu_streams.h"
#include "device/cpu/cpu_workers.h"
#include "device/device.h"
#include "fmt/format.h"

namespace lcab {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kHugePage = int64_t{2} << 20;
// Below this a second thread does not pay.
constexpr int64_t kSharedCopyBytes = int64_t{1} << 18;
constexpr int kMostThreads = 4096;

class CpuDevice : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, std::unique_ptr<CpuWorkers> workers)
      : event_wait_limit_(options.event_wait_limit), workers_(std::move(workers)) {
    info_.kind = DeviceKind::kCpu;
    info_.id = fmt::format("cpu:{}", options.index);
    info_.model = CpuModel();
    info_.threads = options.threads;
    info_.memory_bytes =
        options.memory_bytes > 0 ? options.memory_bytes : MachineMemoryBytes() / 4 * 3;
    info_.peak_flops = PeakFlopsBound(options.threads);
  }

  const DeviceInfo& info() const override { return info_; }
  Stream& stream() override { return compute_; }
  Workers* workers() override { return workers_.get(); }

  absl::StatusOr<std::unique_ptr<Stream>> MakeStream() override {
    absl::StatusOr<std::unique_ptr<ThreadStream>> stream = ThreadStream::Create();
    if (!stream.ok()) return stream.status();
    return std::unique_ptr<Stream>(*std::move(stream));
  }
  absl::StatusOr<std::unique_ptr<Event>> MakeEvent() override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>(event_wait_limit_));
  }
  absl::StatusOr<std::unique_ptr<Timer>> MakeTimer() override {
    return std::unique_ptr<Timer>(std::make_unique<CpuTimer>());
  }

  absl::Status Fill(void* to, int64_t bytes, uint8_t byte, Stream& stream) override {
    auto* target = static_cast<std::byte*>(to);
    return InPieces(bytes, stream, [target, byte](int64_t begin, int64_t end) {
      std::memset(target + begin, byte, static_cast<size_t>(end - begin));
    });
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream& stream) override {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    return InPieces(bytes, stream, [target, source](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes, Stream& stream) override {
    return Copy(to, from, bytes, stream);
  }
  absl::Status CopyFromHost(void* to, const void* from, int64_t bytes, Stream& stream) override {
    return Copy(to, from, bytes, stream);
  }

  absl::Status FlushCaches(Stream& stream) override {
    return stream.Enqueue([this] {
      // Outside the accounted memory: it belongs to the measurement, not to the problem. Threads
      // are spread over the last-level caches, so that those of each go through twice what it
      // holds.
      const std::lock_guard lock(flush_mutex_);
      if (flush_.empty()) {
        const int64_t bytes = 2 * LastLevelCacheBytes(AllowedCpus());
        try {
          flush_.resize(static_cast<size_t>(bytes) / sizeof(uint64_t));
        } catch (const std::bad_alloc&) {
          return absl::ResourceExhaustedError(
              fmt::format("{} has no {} bytes with which to flush its caches; measure with warm "
                          "caches, or leave more memory free",
                          info_.id, bytes));
        }
      }
      const size_t share = flush_.size() / static_cast<size_t>(info_.threads);
      workers_->RunOnEach([&](int thread) {
        uint64_t* words = flush_.data() + share * static_cast<size_t>(thread);
        constexpr size_t kWordsOfLine = 8;
        for (size_t i = 0; i < share; i += kWordsOfLine) words[i] += 1;
      });
      return absl::OkStatus();
    });
  }

  absl::StatusOr<Conditions> ReadConditions() override { return conditions_.Read(); }

 protected:
  absl::StatusOr<std::byte*> DoAllocate(int64_t bytes) override {
    const int64_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    const int64_t size = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
    void* data = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
    if (data == nullptr) {
      return absl::ResourceExhaustedError(fmt::format(
          "the operating system refused {} {} bytes, though {} of {} were left; lower the "
          "device's memory limit to what the machine can give",
          info_.id, bytes, info_.memory_bytes - (allocated_bytes() - bytes), info_.memory_bytes));
    }
    if (bytes >= kHugePage) {
      // Advice only: without huge pages all works, slower.
      (void)madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
    }
    // Pages are taken now, not in the middle of the first timed call; and what is read before it
    // was written shows: these bytes are NaN in every dtype.
    std::memset(data, 0xFF, static_cast<size_t>(size));
    return static_cast<std::byte*>(data);
  }

  void DoFree(std::byte* data, int64_t /*bytes*/) override { std::free(data); }

 private:
  // Runs work(begin, end) over pieces of [0, bytes): on all threads in the compute stream, in the
  // stream's own thread elsewhere, so that copies do not wait for kernels.
  template <typename Work>
  absl::Status InPieces(int64_t bytes, Stream& stream, Work work) {
    if (bytes <= 0) {
      return bytes == 0
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError(fmt::format("cannot fill or copy {} bytes", bytes));
    }
    const bool shared = &stream == &compute_ && bytes >= kSharedCopyBytes;
    return stream.Enqueue([this, bytes, shared, work = std::move(work)] {
      if (!shared) {
        work(int64_t{0}, bytes);
        return absl::OkStatus();
      }
      const int64_t pieces = info_.threads;
      const int64_t piece = (bytes / pieces + kAlignment) / kAlignment * kAlignment;
      workers_->Run(pieces, [&](int64_t part, int) {
        const int64_t begin = std::min(bytes, part * piece);
        const int64_t end = std::min(bytes, begin + piece);
        if (begin < end) work(begin, end);
      });
      return absl::OkStatus();
    });
  }

  DeviceInfo info_;
  const absl::Duration event_wait_limit_;
  std::unique_ptr<CpuWorkers> workers_;
  InlineStream compute_;
  CpuConditions conditions_;
  std::mutex flush_mutex_;
  std::vector<uint64_t> flush_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const CpuDeviceOptions& options) {
  if (options.index < 0) {
    return absl::InvalidArgumentError(
        fmt::format("a CPU device's index is 0 or more, not {}", options.index));
  }
  if (options.threads < 1 || options.threads > kMostThreads) {
    return absl::InvalidArgumentError(
        fmt::format("a CPU device has 1 to {} threads, not {}", kMostThreads, options.threads));
  }
  if (options.memory_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("a memory limit is positive, or 0 for three quarters of the machine's memory; "
                    "it cannot be {} bytes",
                    options.memory_bytes));
  }
  absl::StatusOr<std::unique_ptr<CpuWorkers>> workers = CpuWorkers::Create(options.threads);
  if (!workers.ok()) return workers.status();
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(options, *std::move(workers)));
}

}  // namespace lcab
