// What only a GPU can show; skipped, with the reason, where there is none.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "device/cuda/clock_stamp.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/launch_gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

class CudaDeviceOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const CudaDevices found = ListCudaDevices();
    if (found.devices.empty()) GTEST_SKIP() << "needs a GPU: " << found.reason;
    properties_ = found.devices.front();
    auto device = MakeCudaDevice({.index = 0, .memory_bytes = int64_t{1} << 30});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  std::vector<uint8_t> Fetch(const Memory& memory) {
    std::vector<uint8_t> bytes(static_cast<size_t>(memory.bytes()), 0x11);
    EXPECT_TRUE(
        device_->CopyToHost(bytes.data(), memory.data(), memory.bytes(), device_->stream()).ok());
    EXPECT_TRUE(device_->stream().Synchronize(Soon()).ok());
    return bytes;
  }

  CudaDeviceProperties properties_;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceOnGpu, ItSaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.kind, DeviceKind::kCuda);
  EXPECT_EQ(info.id.size(), std::string("GPU-00000000-0000-0000-0000-000000000000").size());
  EXPECT_NE(info.model, "");
  EXPECT_GT(info.threads, 1);
  EXPECT_GE(info.compute_capability, 80);
  EXPECT_EQ(info.memory_bytes, int64_t{1} << 30);
  EXPECT_GT(info.peak_flops, 5e13);
  EXPECT_LT(info.peak_flops, 5e15);
}

TEST_F(CudaDeviceOnGpu, FreshMemoryIsNaNInEveryDtype) {
  const Memory memory = device_->Allocate(10'007).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0U);
  EXPECT_THAT(Fetch(memory), Each(0xFF));
}

TEST_F(CudaDeviceOnGpu, BytesSurviveTheWayThereAndBack) {
  std::vector<uint8_t> bytes(1 << 20);
  for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<uint8_t>(n * 31 + n / 251);
  const auto size = static_cast<int64_t>(bytes.size());
  const Memory one = device_->Allocate(size).value();
  const Memory two = device_->Allocate(size).value();
  Stream& stream = device_->stream();
  ASSERT_TRUE(device_->CopyFromHost(one.data(), bytes.data(), size, stream).ok());
  ASSERT_TRUE(device_->Copy(two.data(), one.data(), size, stream).ok());
  ASSERT_TRUE(device_->Fill(one.data(), size, 7, stream).ok());
  EXPECT_EQ(Fetch(two), bytes);
  EXPECT_THAT(Fetch(one), Each(7));
}

TEST_F(CudaDeviceOnGpu, MemoryBeyondTheLimitOrTheCardIsExhausted) {
  EXPECT_EQ(device_->Allocate((int64_t{1} << 30) + 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  auto greedy = MakeCudaDevice({.index = 0, .memory_bytes = properties_.memory_bytes * 2});
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  const absl::Status status = (*greedy)->Allocate(properties_.memory_bytes + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  // It leaves no trace in the stream.
  EXPECT_TRUE((*greedy)->stream().Synchronize(Soon()).ok());
}

TEST_F(CudaDeviceOnGpu, AStreamThatIsNotDoneByTheDeadlineSaysSoAndGoesOn) {
  cuda::LaunchGate gate;
  ASSERT_EQ(gate.Init(), cudaSuccess);
  Stream& stream = device_->stream();
  ASSERT_EQ(gate.Close(cuda::CudaStreamOf(stream)), cudaSuccess);
  EXPECT_EQ(stream.Synchronize(absl::Now() + absl::Milliseconds(1)).code(),
            absl::StatusCode::kDeadlineExceeded);
  gate.Open();
  EXPECT_TRUE(stream.Synchronize(Soon()).ok());
}

TEST_F(CudaDeviceOnGpu, AGateThatNobodyOpensLetsTheDeviceGoOn) {
  cuda::LaunchGate gate;
  ASSERT_EQ(gate.Init(), cudaSuccess);
  ASSERT_EQ(gate.Close(cuda::CudaStreamOf(device_->stream())), cudaSuccess);
  EXPECT_TRUE(device_->stream().Synchronize(Soon()).ok());
}

TEST_F(CudaDeviceOnGpu, AnEventMakesOneStreamWaitForAnother) {
  const std::unique_ptr<Stream> other = device_->MakeStream().value();
  const std::unique_ptr<Event> event = device_->MakeEvent().value();
  const Memory memory = device_->Allocate(4096).value();
  cuda::LaunchGate gate;
  ASSERT_EQ(gate.Init(), cudaSuccess);
  ASSERT_EQ(gate.Close(cuda::CudaStreamOf(*other)), cudaSuccess);
  ASSERT_TRUE(device_->Fill(memory.data(), 4096, 1, *other).ok());
  ASSERT_TRUE(event->Record(*other).ok());
  ASSERT_TRUE(event->Wait(device_->stream()).ok());
  ASSERT_TRUE(device_->Fill(memory.data(), 4096, 2, device_->stream()).ok());
  gate.Open();
  EXPECT_THAT(Fetch(memory), Each(2));
}

TEST_F(CudaDeviceOnGpu, ATimerTimesTheDeviceAndNotTheHostThatLaunches) {
  const std::unique_ptr<Timer> timer = device_->MakeTimer().value();
  const Memory memory = device_->Allocate(int64_t{1} << 28).value();
  Stream& stream = device_->stream();
  for (const bool slow_host : {false, true}) {
    ASSERT_TRUE(timer->Start(stream).ok());
    if (slow_host) {
      // Less than the gate's limit.
      for (const absl::Time until = absl::Now() + absl::Milliseconds(2); absl::Now() < until;) {
      }
    }
    ASSERT_TRUE(device_->Fill(memory.data(), memory.bytes(), 3, stream).ok());
    ASSERT_TRUE(timer->Stop(stream).ok());
    ASSERT_TRUE(stream.Synchronize(Soon()).ok());
    const absl::StatusOr<absl::Duration> elapsed = timer->Elapsed();
    ASSERT_TRUE(elapsed.ok()) << elapsed.status();
    // 256 MiB at between 100 GB/s and 10 TB/s.
    EXPECT_GT(*elapsed, absl::Microseconds(26));
    EXPECT_LT(*elapsed, slow_host ? absl::Microseconds(1900) : absl::Milliseconds(3));
  }
}

TEST_F(CudaDeviceOnGpu, ALaunchThatNobodyCheckedIsFoundByTheNextSynchronize) {
  ASSERT_TRUE(device_->stream().Synchronize(Soon()).ok());
  EXPECT_TRUE(device_->stream()
                  .Enqueue([&] {
                    void* nowhere = nullptr;
                    // Asks for more than there can be: fails, and is not looked at.
                    (void)cudaMalloc(&nowhere, ~size_t{0} / 2);
                    return absl::OkStatus();
                  })
                  .ok());
  const absl::Status status = device_->stream().Synchronize(Soon());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("unnoticed"));
  EXPECT_TRUE(device_->stream().Synchronize(Soon()).ok());
}

TEST_F(CudaDeviceOnGpu, ConditionsComeFromTheDriverAndTheDevicesOwnClock) {
  const std::unique_ptr<Timer> timer = device_->MakeTimer().value();
  const Memory memory = device_->Allocate(int64_t{1} << 29).value();
  Stream& stream = device_->stream();
  ASSERT_TRUE(timer->Start(stream).ok());
  for (int n = 0; n < 20; ++n) {
    ASSERT_TRUE(device_->Fill(memory.data(), memory.bytes(), 3, stream).ok());
  }
  ASSERT_TRUE(timer->Stop(stream).ok());
  ASSERT_TRUE(stream.Synchronize(Soon()).ok());
  ASSERT_TRUE(timer->Elapsed().ok());
  const Conditions conditions = device_->ReadConditions().value();
  EXPECT_GT(conditions.expected_clock_hz, 5e8);
  EXPECT_GT(conditions.clock_hz, 0.1 * conditions.expected_clock_hz);
  EXPECT_LT(conditions.clock_hz, 1.05 * conditions.expected_clock_hz);
  EXPECT_GT(conditions.temperature_celsius, 5);
  EXPECT_GT(conditions.power_watts, 5);
}

TEST_F(CudaDeviceOnGpu, FlushedCachesMakeTheNextReadSlower) {
  // A third of the cache: it stays there when nothing flushes it.
  const int64_t bytes = properties_.l2_bytes / 6 / 4096 * 4096;
  const Memory from = device_->Allocate(bytes).value();
  const Memory to = device_->Allocate(bytes).value();
  const std::unique_ptr<Timer> timer = device_->MakeTimer().value();
  Stream& stream = device_->stream();
  const auto median_seconds = [&](bool cold) {
    std::vector<double> seconds;
    for (int n = 0; n < 21; ++n) {
      EXPECT_TRUE(device_->Copy(to.data(), from.data(), bytes, stream).ok());
      if (cold) {
        EXPECT_TRUE(device_->FlushCaches(stream).ok());
      }
      EXPECT_TRUE(timer->Start(stream).ok());
      EXPECT_TRUE(device_->Copy(to.data(), from.data(), bytes, stream).ok());
      EXPECT_TRUE(timer->Stop(stream).ok());
      EXPECT_TRUE(stream.Synchronize(Soon()).ok());
      seconds.push_back(absl::ToDoubleSeconds(timer->Elapsed().value()));
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  };
  EXPECT_GT(median_seconds(true), 1.1 * median_seconds(false));
}

}  // namespace
}  // namespace lcab
