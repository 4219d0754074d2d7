#include "worker/inventory.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

CpuBudget Cpus(int count) {
  CpuBudget budget{.usable = count};
  for (int cpu = 0; cpu < count; ++cpu) budget.cpus.push_back(10 + cpu);
  return budget;
}

TEST(DivideCpus, SlotsHaveDisjointCpusAndTheSameNumberOfThem) {
  for (const int count : {1, 2, 3, 7, 8, 64}) {
    for (int slots = 1; slots <= count; ++slots) {
      const auto inventory = DivideCpus(Cpus(count), slots, {});
      ASSERT_TRUE(inventory.ok());
      ASSERT_EQ(static_cast<int>(inventory->slots.size()), slots);
      EXPECT_TRUE(inventory->notes.empty());
      std::set<int> seen;
      for (const DeviceSlot& slot : inventory->slots) {
        EXPECT_EQ(slot.threads, count / slots);
        EXPECT_EQ(static_cast<int>(slot.cpus.size()), slot.threads);
        for (const int cpu : slot.cpus) EXPECT_TRUE(seen.insert(cpu).second) << cpu;
      }
    }
  }
}

TEST(DivideCpus, MoreSlotsThanCpusShareAndANoteSaysSo) {
  const auto inventory = DivideCpus(Cpus(2), 4, {});
  ASSERT_TRUE(inventory.ok());
  ASSERT_EQ(inventory->slots.size(), 4u);
  for (const DeviceSlot& slot : inventory->slots) EXPECT_EQ(slot.threads, 1);
  EXPECT_EQ(inventory->slots[3].cpus, std::vector<int>{11});
  ASSERT_EQ(inventory->notes.size(), 1u);
}

TEST(DivideCpus, UnderAQuotaNothingIsBound) {
  CpuBudget budget = Cpus(64);
  budget.usable = 4;
  const auto inventory = DivideCpus(budget, 2, {});
  ASSERT_TRUE(inventory.ok());
  EXPECT_EQ(inventory->slots[0].threads, 2);
  EXPECT_TRUE(inventory->slots[0].cpus.empty());
  EXPECT_EQ(inventory->notes.size(), 1u);
}

TEST(DivideCpus, SlotsThatNoMachineCouldRunAreRefusedBeforeAnyIsMade) {
  for (const int64_t slots :
       {int64_t{0}, int64_t{-1}, kMostCpuSlots + 1, int64_t{99'999'999'999}}) {
    EXPECT_EQ(DivideCpus(Cpus(2), slots, {}).status().code(), absl::StatusCode::kInvalidArgument)
        << slots;
  }
}

TEST(UsableCpus, ThereIsAtLeastOneAndNoMoreThanTheAffinity) {
  const CpuBudget budget = UsableCpus();
  EXPECT_GE(budget.usable, 1);
  EXPECT_LE(budget.usable, static_cast<int>(budget.cpus.size()));
}

TEST(Catalogue, HasTheBuiltInKernelsAndMarksHiddenOnes) {
  const std::vector<v1::KernelInfo> kernels = Catalogue();
  const auto find = [&](const std::string& name) {
    return std::find_if(kernels.begin(), kernels.end(),
                        [&](const v1::KernelInfo& kernel) { return kernel.name() == name; });
  };
  ASSERT_NE(find("cpu_tiled"), kernels.end());
  EXPECT_FALSE(find("cpu_tiled")->hidden());
  EXPECT_EQ(find("cpu_tiled")->device_kind(), "cpu");
  ASSERT_NE(find("test_crash"), kernels.end());
  EXPECT_TRUE(find("test_crash")->hidden());
}

}  // namespace
}  // namespace lcab::worker
