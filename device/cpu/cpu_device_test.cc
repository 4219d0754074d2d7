#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "device/cpu/cpu_conditions.h"
#include "device/device.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CpuDeviceTest, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(MakeCpuDevice({.threads = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuDevice({.threads = 1'000'000}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuDevice({.index = -1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuDevice({.memory_bytes = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuDeviceTest, ItSaysWhatItIs) {
  auto device = MakeCpuDevice({.index = 3, .threads = 2, .memory_bytes = 1000}).value();
  EXPECT_EQ(device->info().kind, DeviceKind::kCpu);
  EXPECT_EQ(device->info().id, "cpu:3");
  EXPECT_FALSE(device->info().model.empty());
  EXPECT_EQ(device->info().threads, 2);
  EXPECT_EQ(device->info().memory_bytes, 1000);
  ASSERT_NE(device->workers(), nullptr);
  EXPECT_EQ(device->workers()->threads(), 2);
}

TEST(CpuDeviceTest, WithoutALimitThreeQuartersOfTheMemoryMayBeUsed) {
  auto device = MakeCpuDevice({}).value();
  EXPECT_EQ(device->info().memory_bytes, MachineMemoryBytes() / 4 * 3);
}

TEST(CpuDeviceTest, MemoryBeyondTheLimitIsExhaustedWithBothFigures) {
  auto device = MakeCpuDevice({.memory_bytes = 1'000'000}).value();
  Memory first = device->Allocate(600'000).value();
  const absl::Status status = device->Allocate(400'001).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("400001"), HasSubstr("400000")));
  EXPECT_EQ(device->allocated_bytes(), 600'000);
  EXPECT_TRUE(device->Allocate(400'000).ok());
  first = Memory();
  EXPECT_TRUE(device->Allocate(1'000'000).ok());
}

TEST(CpuDeviceTest, NegativeBytesAreRefusedAndNoneAreFine) {
  auto device = MakeCpuDevice({}).value();
  EXPECT_EQ(device->Allocate(-1).status().code(), absl::StatusCode::kInvalidArgument);
  const Memory nothing = device->Allocate(0).value();
  EXPECT_NE(nothing.data(), nullptr);
  EXPECT_EQ(nothing.bytes(), 0);
}

TEST(CpuDeviceTest, MemoryIsAlignedCountedAndGivenBack) {
  auto device = MakeCpuDevice({}).value();
  for (const int64_t bytes : {1, 255, 257, 3'000'000}) {
    const Memory memory = device->Allocate(bytes).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0U);
    EXPECT_EQ(memory.bytes(), bytes);
    EXPECT_EQ(device->allocated_bytes(), bytes);
  }
  EXPECT_EQ(device->allocated_bytes(), 0);
  EXPECT_EQ(device->peak_bytes(), 3'000'000);
  device->ResetPeak();
  EXPECT_EQ(device->peak_bytes(), 0);
}

TEST(CpuDeviceTest, MovedMemoryHasOneOwner) {
  auto device = MakeCpuDevice({}).value();
  Memory first = device->Allocate(100).value();
  Memory second = std::move(first);
  EXPECT_EQ(device->allocated_bytes(), 100);
  second = device->Allocate(50).value();
  EXPECT_EQ(device->allocated_bytes(), 50);
  std::byte* const data = second.data();
  Memory& self = second;
  second = std::move(self);
  EXPECT_EQ(second.data(), data);
}

TEST(CpuDeviceTest, FillsAndCopiesReachEveryByteInEveryStream) {
  auto device = MakeCpuDevice({.threads = 3}).value();
  auto stream = device->MakeStream().value();
  for (Stream* each : {&device->stream(), stream.get()}) {
    for (const int64_t bytes : {int64_t{1}, int64_t{1000}, (int64_t{1} << 20) + 7}) {
      const Memory from = device->Allocate(bytes + 1).value();
      const Memory to = device->Allocate(bytes + 1).value();
      ASSERT_TRUE(device->Fill(to.data(), bytes + 1, 0x11, *each).ok());
      ASSERT_TRUE(device->Fill(from.data(), bytes, 0xA5, *each).ok());
      ASSERT_TRUE(device->Copy(to.data(), from.data(), bytes, *each).ok());
      std::vector<uint8_t> host(static_cast<size_t>(bytes) + 1);
      ASSERT_TRUE(device->CopyToHost(host.data(), to.data(), bytes + 1, *each).ok());
      ASSERT_TRUE(each->Synchronize(absl::Now() + absl::Seconds(30)).ok());
      EXPECT_EQ(std::count(host.begin(), host.end(), 0xA5), bytes);
      EXPECT_EQ(host.back(), 0x11);
    }
  }
  EXPECT_EQ(device->Fill(nullptr, -1, 0, device->stream()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuDeviceTest, FlushingCachesLeavesMemoryAlone) {
  auto device = MakeCpuDevice({.threads = 2}).value();
  const Memory memory = device->Allocate(1000).value();
  ASSERT_TRUE(device->Fill(memory.data(), 1000, 7, device->stream()).ok());
  ASSERT_TRUE(device->FlushCaches(device->stream()).ok());
  ASSERT_TRUE(device->FlushCaches(device->stream()).ok());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(memory.data()[i], std::byte{7});
  EXPECT_EQ(device->allocated_bytes(), 1000);
}

// What the kernel says of caches, in a folder that stands for the root of the file system.
class CacheFilesTest : public testing::Test {
 protected:
  ~CacheFilesTest() override { std::filesystem::remove_all(root_); }

  void Add(int cpu, int index, int level, const std::string& size, const std::string& shared_by) {
    const std::filesystem::path folder =
        root_ / fmt::format("sys/devices/system/cpu/cpu{}/cache/index{}", cpu, index);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "level") << level << "\n";
    std::ofstream(folder / "size") << size << "\n";
    std::ofstream(folder / "shared_cpu_list") << shared_by << "\n";
  }
  int64_t BytesOf(const std::vector<int>& cpus) const {
    return LastLevelCacheBytes(cpus, root_.string());
  }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("lcab_caches_{}", getpid());
};

TEST_F(CacheFilesTest, CachesOfTheHighestLevelAreAddedUpEachOnce) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    Add(cpu, 0, 1, "32K", fmt::format("{}", cpu));
    Add(cpu, 1, 2, "1024K", fmt::format("{}", cpu));
    Add(cpu, 2, 3, "32768K", cpu < 2 ? "0-1" : "2-3");
  }
  EXPECT_EQ(BytesOf({0, 1, 2, 3}), int64_t{64} << 20);
  EXPECT_EQ(BytesOf({2, 3}), int64_t{32} << 20);
  EXPECT_EQ(BytesOf({1, 2}), int64_t{64} << 20);
}

TEST_F(CacheFilesTest, ThirtyTwoMebibytesStandForWhatTheKernelDoesNotTell) {
  EXPECT_EQ(BytesOf({0, 1}), int64_t{32} << 20);
  EXPECT_EQ(BytesOf({}), int64_t{32} << 20);
}

TEST(CpuDeviceTest, ConditionsAreKnownOrZero) {
  auto device = MakeCpuDevice({}).value();
  const Conditions conditions = device->ReadConditions().value();
#if defined(__x86_64__) || defined(__aarch64__)
  // No core that can run this is slower than 0.1 GHz or faster than 10.
  EXPECT_GT(conditions.clock_hz, 1e8);
  EXPECT_LT(conditions.clock_hz, 1e10);
#endif
  EXPECT_GE(conditions.expected_clock_hz, 0);
  EXPECT_GE(device->info().peak_flops, 0);
}

// 2 for a multiply-add, 2 of them a cycle, 8 or 16 elements of fp32 in a vector; pairs of bf16
// twice that. A bound that is too low would call good results wrong: without flags there is none.
TEST(CpuDeviceTest, OperationsOfACycleFollowTheWidestInstructionsAndAreUnknownWithoutFlags) {
  EXPECT_EQ(FlopsPerCycle("flags\t\t: fpu sse2 avx fma\n"), 2 * 2 * 8);
  EXPECT_EQ(FlopsPerCycle("model name\t: X\nflags\t\t: fpu avx fma avx512f\nbugs\t:\n"),
            2 * 2 * 16);
  EXPECT_EQ(FlopsPerCycle("flags\t\t: avx512_bf16 avx512f fma"), 2 * 2 * 32);
  // Intel's figure for AMX: 1,024 operations on bf16 a cycle, of 16 x 16 x 32 multiply-adds in 16.
  EXPECT_EQ(FlopsPerCycle("flags\t\t: avx512_bf16 amx_bf16 amx_tile\n"), 2 * 16 * 16 * 32 / 16);
  EXPECT_EQ(FlopsPerCycle("vmx flags\t: fma\n"), 0);
  EXPECT_EQ(FlopsPerCycle("model name\t: X\n"), 0);
  EXPECT_EQ(FlopsPerCycle(""), 0);
}

TEST(CpuDeviceTest, ThePeakGrowsWithThreads) {
  const double one = PeakFlopsBound(1);
  const double four = PeakFlopsBound(4);
  // Two measurements of the clock lie between; the bound holds within half of it.
  EXPECT_GE(four, 2 * one);
}

}  // namespace
}  // namespace lcab
