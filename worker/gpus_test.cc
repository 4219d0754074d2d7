#include "worker/gpus.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Gpu FakeGpu(int index) {
  return {.properties = {.index = index,
                         .uuid = index == 0 ? "GPU-a" : "GPU-b",
                         .model = "NVIDIA H200",
                         .memory_bytes = int64_t{143'771} << 20,
                         .multiprocessors = 132,
                         .compute_capability = 90},
          .facts = {.driver_version = "580.159.04"},
          .others = {}};
}

TEST(AddGpus, EachIsADeviceLikeACpuSlot) {
  Inventory inventory = DivideCpus({.cpus = {0, 1}, .usable = 2}, 1, {}).value();
  AddGpus({.gpus = {FakeGpu(0), FakeGpu(1)}, .reason = ""}, 2, inventory);
  ASSERT_EQ(inventory.slots.size(), 3u);
  ASSERT_EQ(inventory.devices.size(), 3u);
  EXPECT_EQ(inventory.slots[0].kind, DeviceKind::kCpu);
  EXPECT_EQ(inventory.slots[2].kind, DeviceKind::kCuda);
  EXPECT_EQ(inventory.slots[2].id, "GPU-b");
  EXPECT_EQ(inventory.slots[2].index, 1);
  EXPECT_EQ(inventory.slots[2].threads, 2);
  EXPECT_EQ(inventory.devices[1].id(), "GPU-a");
  EXPECT_EQ(inventory.devices[1].kind(), "cuda");
  EXPECT_EQ(inventory.devices[1].model(), "NVIDIA H200");
  EXPECT_EQ(inventory.devices[1].threads(), 132);
  EXPECT_EQ(inventory.devices[1].memory_bytes(), int64_t{143'771} << 20);
  EXPECT_THAT(inventory.devices[1].facts(), Contains("driver=580.159.04"));
  EXPECT_THAT(inventory.notes, IsEmpty());
}

TEST(AddGpus, ANoteSaysWhyThereIsNone) {
  Inventory inventory;
  AddGpus({.gpus = {}, .reason = "there is no driver"}, 1, inventory);
  EXPECT_THAT(inventory.slots, IsEmpty());
  EXPECT_THAT(inventory.notes, ElementsAre("no GPU: there is no driver"));
}

TEST(AddGpus, ANoteNamesOtherProgramsOnAGpu) {
  Gpu gpu = FakeGpu(0);
  gpu.others = {{.pid = 4711, .name = "python3", .bytes = 0}};
  Inventory inventory;
  AddGpus({.gpus = {gpu}, .reason = ""}, 1, inventory);
  EXPECT_THAT(inventory.notes, ElementsAre(HasSubstr("4711 (python3)")));
}

TEST(FindGpus, ThereAreSomeOrThereIsAReason) {
  const Gpus found = FindGpus();
  EXPECT_NE(found.gpus.empty(), found.reason.empty()) << found.reason;
}

}  // namespace
}  // namespace lcab::worker
