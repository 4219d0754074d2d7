#include "device/cuda/gpu_facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const CudaDeviceProperties kH200 = {.uuid = "GPU-1",
                                    .model = "NVIDIA H200",
                                    .pci_bus_id = "00000000:1B:00.0",
                                    .compute_capability = 90,
                                    .driver_cuda_version = 13000,
                                    .runtime_cuda_version = 12090};

TEST(GpuFacts, WhatDecidesFiguresIsTextThatCanBeCompared) {
  const GpuFacts facts = {.driver_version = "580.159.04",
                          .top_clock_hz = 1.98e9,
                          .top_memory_clock_hz = 3.201e9,
                          .power_limit_watts = 700,
                          .ecc = true,
                          .pcie_generation = 5,
                          .pcie_lanes = 16,
                          .numa_node = 1,
                          .nvlinks = {{"a", 6}, {"b", 12}}};
  EXPECT_THAT(ComparableFacts(kH200, facts),
              ElementsAre("compute_capability=90", "driver=580.159.04", "driver_cuda=13.0",
                          "cuda=12.9", "top_clock_mhz=1980", "top_memory_clock_mhz=3201",
                          "power_limit_watts=700", "ecc=on", "pcie=5x16", "nvlinks=18"));
  EXPECT_THAT(PlaceFacts(kH200, facts), ElementsAre("pci=00000000:1B:00.0", "numa_node=1"));
}

TEST(GpuFacts, WhatIsUnknownIsLeftOut) {
  EXPECT_THAT(ComparableFacts({}, {}), IsEmpty());
  EXPECT_THAT(PlaceFacts({}, {}), IsEmpty());
}

TEST(GpuNotes, TellOfSlicesAndOfOtherPrograms) {
  EXPECT_THAT(GpuNotes(kH200, {}, {}), IsEmpty());
  EXPECT_THAT(GpuNotes(kH200, {.mig = true}, {{.pid = 17, .name = "python3"}, {.pid = 18}}),
              ElementsAre(AllOf(HasSubstr("GPU-1"), HasSubstr("MIG")),
                          AllOf(HasSubstr("process 17"), HasSubstr("python3")),
                          HasSubstr("process 18 too")));
}

}  // namespace
}  // namespace lcab
