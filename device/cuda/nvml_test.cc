#include "device/cuda/nvml.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kBusId[] = "00000000:1B:00.0";

// A driver that is not there, with one GPU as an H200's answers in a capped moment.
nvml::Functions FakeDriver() {
  nvml::Functions f;
  f.init = [] { return nvml::kSuccess; };
  f.error_string = [](nvml::Return) { return "Driver Not Loaded"; };
  f.driver_version = [](char* text, unsigned length) {
    std::strncpy(text, "580.159.04", length);
    return nvml::kSuccess;
  };
  f.device_by_pci = [](const char* bus_id, nvml::Handle* handle) {
    if (std::strcmp(bus_id, kBusId) != 0) return nvml::Return{6};  // NVML_ERROR_NOT_FOUND
    *handle = nullptr;
    return nvml::kSuccess;
  };
  f.temperature = [](nvml::Handle, unsigned, unsigned* celsius) {
    *celsius = 61;
    return nvml::kSuccess;
  };
  f.power = [](nvml::Handle, unsigned* milliwatts) {
    *milliwatts = 698'250;
    return nvml::kSuccess;
  };
  f.energy = [](nvml::Handle, unsigned long long* millijoules) {
    *millijoules = 1'234'567;
    return nvml::kSuccess;
  };
  f.clock = [](nvml::Handle, unsigned, unsigned* megahertz) {
    *megahertz = 1650;
    return nvml::kSuccess;
  };
  f.max_clock = [](nvml::Handle, unsigned type, unsigned* megahertz) {
    *megahertz = type == nvml::kSmClock ? 1980 : 3201;
    return nvml::kSuccess;
  };
  f.clock_reasons = [](nvml::Handle, unsigned long long* reasons) {
    *reasons = nvml::kSwPowerCap;
    return nvml::kSuccess;
  };
  f.power_limit = [](nvml::Handle, unsigned* milliwatts) {
    *milliwatts = 700'000;
    return nvml::kSuccess;
  };
  f.ecc_mode = [](nvml::Handle, int* current, int* pending) {
    *current = *pending = 1;
    return nvml::kSuccess;
  };
  f.pcie_generation = [](nvml::Handle, unsigned* generation) {
    *generation = 5;
    return nvml::kSuccess;
  };
  f.pcie_width = [](nvml::Handle, unsigned* lanes) {
    *lanes = 16;
    return nvml::kSuccess;
  };
  // Eighteen links; 0 to 5 lead to one switch, the others to another, 17 is down.
  f.nvlink_state = [](nvml::Handle, unsigned link, int* active) {
    if (link >= 18) return nvml::Return{2};  // NVML_ERROR_INVALID_ARGUMENT
    *active = link < 17 ? 1 : 0;
    return nvml::kSuccess;
  };
  f.nvlink_remote = [](nvml::Handle, unsigned link, nvml::PciInfo* remote) {
    std::strcpy(remote->bus_id, link < 6 ? "00000000:05:00.0" : "00000000:06:00.0");
    return nvml::kSuccess;
  };
  return f;
}

NvmlDevice FakeGpu(const nvml::Functions& functions = FakeDriver()) {
  return Nvml::Create(functions).value().DeviceByPciBusId(kBusId).value();
}

TEST(Nvml, FactsAreThoseTheDriverTells) {
  const GpuFacts facts = FakeGpu().ReadFacts("/nowhere");
  EXPECT_EQ(facts.driver_version, "580.159.04");
  EXPECT_EQ(facts.top_clock_hz, 1.98e9);
  EXPECT_EQ(facts.top_memory_clock_hz, 3.201e9);
  EXPECT_EQ(facts.power_limit_watts, 700);
  EXPECT_EQ(facts.ecc, true);
  EXPECT_FALSE(facts.mig);
  EXPECT_EQ(facts.pcie_generation, 5);
  EXPECT_EQ(facts.pcie_lanes, 16);
  EXPECT_EQ(facts.numa_node, -1);
}

TEST(Nvml, LinksThatAreUpAreCountedByTheirOtherEnd) {
  const GpuFacts facts = FakeGpu().ReadFacts("/nowhere");
  ASSERT_THAT(facts.nvlinks, SizeIs(2));
  EXPECT_EQ(facts.nvlinks[0].peer, "00000000:05:00.0");
  EXPECT_EQ(facts.nvlinks[0].count, 6);
  EXPECT_EQ(facts.nvlinks[1].count, 11);
}

TEST(Nvml, TheNumaNodeIsReadWhereTheKernelKeepsIt) {
  const std::filesystem::path sys = std::filesystem::path(testing::TempDir()) / "nvml_sys";
  const std::filesystem::path device = sys / "bus/pci/devices/0000:1b:00.0";
  std::filesystem::create_directories(device);
  std::ofstream(device / "numa_node") << "1\n";
  EXPECT_EQ(FakeGpu().ReadFacts(sys).numa_node, 1);
}

TEST(Nvml, WhatADriverDoesNotTellStaysUnknown) {
  nvml::Functions bare;
  bare.init = [] { return nvml::kSuccess; };
  bare.device_by_pci = FakeDriver().device_by_pci;
  const NvmlDevice gpu = FakeGpu(bare);
  const GpuFacts facts = gpu.ReadFacts("/nowhere");
  EXPECT_EQ(facts.driver_version, "");
  EXPECT_EQ(facts.ecc, std::nullopt);
  EXPECT_TRUE(facts.nvlinks.empty());
  const Conditions conditions = gpu.ReadConditions();
  EXPECT_EQ(conditions.clock_hz, 0);
  EXPECT_FALSE(conditions.throttled);
  EXPECT_EQ(gpu.ReadEnergyJoules(), 0);
  EXPECT_TRUE(gpu.OtherProcesses({}).empty());
}

TEST(Nvml, APowerCapIsRecordedAndIsNoThrottling) {
  const Conditions conditions = FakeGpu().ReadConditions();
  EXPECT_EQ(conditions.clock_hz, 1.65e9);
  EXPECT_EQ(conditions.expected_clock_hz, 1.98e9);
  EXPECT_EQ(conditions.temperature_celsius, 61);
  EXPECT_DOUBLE_EQ(conditions.power_watts, 698.25);
  EXPECT_DOUBLE_EQ(conditions.energy_joules, 1234.567);
  EXPECT_TRUE(conditions.power_capped);
  EXPECT_FALSE(conditions.throttled);
}

TEST(Nvml, HeatHardwareSlowdownAndPowerBrakeThrottleAndAreNamed) {
  for (const unsigned long long reason : {nvml::kHwSlowdown, nvml::kSwThermalSlowdown,
                                          nvml::kHwThermalSlowdown, nvml::kHwPowerBrakeSlowdown}) {
    Conditions conditions;
    AddClockReasons(reason, &conditions);
    EXPECT_TRUE(conditions.throttled) << reason;
    EXPECT_FALSE(conditions.power_capped) << reason;
    EXPECT_NE(conditions.reasons, "") << reason;
  }
  Conditions both;
  AddClockReasons(nvml::kHwThermalSlowdown | nvml::kSwPowerCap, &both);
  EXPECT_TRUE(both.throttled && both.power_capped);
  EXPECT_THAT(both.reasons, AllOf(HasSubstr("thermal"), HasSubstr("power cap")));
  Conditions idle;
  AddClockReasons(0x1, &idle);  // idle
  EXPECT_FALSE(idle.throttled || idle.power_capped);
  EXPECT_EQ(idle.reasons, "");
}

TEST(Nvml, ProcessesOfOthersAreFoundAlsoWhereThereAreMany) {
  nvml::Functions functions = FakeDriver();
  functions.compute_processes = [](nvml::Handle, unsigned* count, nvml::ProcessInfo* processes) {
    constexpr unsigned kProcesses = 100;
    if (*count < kProcesses) {
      *count = kProcesses;
      return nvml::kInsufficientSize;
    }
    *count = kProcesses;
    for (unsigned n = 0; n < kProcesses; ++n) processes[n] = {1000 + n, 1ULL << 30, ~0U, ~0U};
    processes[0].pid = static_cast<unsigned>(getpid());
    processes[1].used_memory = ~0ULL;
    return nvml::kSuccess;
  };
  const NvmlDevice gpu = FakeGpu(functions);
  const std::vector<GpuProcess> all = gpu.OtherProcesses({});
  ASSERT_THAT(all, SizeIs(100));
  EXPECT_EQ(all[0].pid, getpid());
  EXPECT_NE(all[0].name, "");
  EXPECT_EQ(all[0].bytes, int64_t{1} << 30);
  EXPECT_EQ(all[1].bytes, 0);
  const std::vector<GpuProcess> others = gpu.OtherProcesses({getpid(), 1099});
  ASSERT_THAT(others, SizeIs(98));
  EXPECT_EQ(others.front().pid, 1001);
}

TEST(Nvml, ADriverThatDoesNotAnswerIsUnavailableInItsOwnWords) {
  nvml::Functions functions = FakeDriver();
  functions.init = [] { return nvml::Return{9}; };  // NVML_ERROR_DRIVER_NOT_LOADED
  const absl::Status status = Nvml::Create(functions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Driver Not Loaded"));
}

TEST(Nvml, AGpuThatIsNotThereIsNotFound) {
  const absl::Status status =
      Nvml::Create(FakeDriver()).value().DeviceByPciBusId("00000000:FF:00.0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace lcab
