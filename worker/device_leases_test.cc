#include "worker/device_leases.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }
bool Never() { return false; }

TEST(DeviceLeases, ASecondHolderWaitsForTheFirst) {
  DeviceLeases leases;
  ASSERT_TRUE(leases.Acquire({"cpu:0", "cpu:1"}, "a", Soon(), Never).ok());
  std::atomic<bool> has = false;
  std::thread second([&] {
    EXPECT_TRUE(leases.Acquire({"cpu:1"}, "b", Soon(), Never).ok());
    has = true;
  });
  EXPECT_TRUE(leases.Acquire({"cpu:2"}, "c", Soon(), Never).ok());
  EXPECT_FALSE(has);
  leases.Release("a");
  second.join();
}

TEST(DeviceLeases, WhoHoldsADeviceIsNamedWhenTheTimeIsOver) {
  DeviceLeases leases;
  ASSERT_TRUE(leases.Acquire({"cpu:1"}, "assignments/7", Soon(), Never).ok());
  const absl::Status status =
      leases.Acquire({"cpu:0", "cpu:1"}, "b", absl::Now() + absl::Milliseconds(5), Never);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "device cpu:1 is still in use by assignments/7");
  // The free one was not taken by half.
  EXPECT_TRUE(leases.Acquire({"cpu:0"}, "c", Soon(), Never).ok());
}

TEST(DeviceLeases, AWaiterThatGivesUpIsCancelled) {
  DeviceLeases leases;
  ASSERT_TRUE(leases.Acquire({"cpu:0"}, "a", Soon(), Never).ok());
  std::atomic<bool> give_up = false;
  std::thread waiter([&] {
    EXPECT_EQ(leases.Acquire({"cpu:0"}, "b", Soon(), [&] { return give_up.load(); }).code(),
              absl::StatusCode::kCancelled);
  });
  give_up = true;
  leases.Wake();
  waiter.join();
}

TEST(DeviceLeases, RanksOfOneAssignmentShareADevice) {
  DeviceLeases leases;
  EXPECT_TRUE(leases.Acquire({"cpu:0", "cpu:0"}, "a", Soon(), Never).ok());
  leases.Release("a");
  EXPECT_TRUE(leases.Acquire({"cpu:0"}, "b", Soon(), Never).ok());
}

}  // namespace
}  // namespace lcab::worker
