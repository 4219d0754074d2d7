#include "device/cpu/cpu_streams.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "device/device.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

std::unique_ptr<Device> MakeDevice(absl::Duration event_wait_limit = absl::Minutes(1)) {
  return MakeCpuDevice({.threads = 2, .event_wait_limit = event_wait_limit}).value();
}

TEST(CpuStreamTest, TheComputeStreamRunsWorkAtOnceAndReturnsItsError) {
  auto device = MakeDevice();
  bool ran = false;
  EXPECT_TRUE(device->stream()
                  .Enqueue([&] {
                    ran = true;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_TRUE(ran);
  EXPECT_EQ(device->stream().Enqueue([] { return absl::DataLossError("x"); }).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE(device->stream().Synchronize(Soon()).ok());
}

TEST(CpuStreamTest, AnAsynchronousStreamKeepsOrderAndDoesNotHoldTheCaller) {
  auto device = MakeDevice();
  auto stream = device->MakeStream().value();
  std::latch caller_went_on(1);
  std::vector<int> order;
  ASSERT_TRUE(stream
                  ->Enqueue([&] {
                    caller_went_on.wait();
                    order.push_back(0);
                    return absl::OkStatus();
                  })
                  .ok());
  for (int i = 1; i < 100; ++i) {
    ASSERT_TRUE(stream
                    ->Enqueue([&order, i] {
                      order.push_back(i);
                      return absl::OkStatus();
                    })
                    .ok());
  }
  caller_went_on.count_down();
  ASSERT_TRUE(stream->Synchronize(Soon()).ok());
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(CpuStreamTest, AnErrorIsReportedOnceAndWhatStoodBehindItDidNotRun) {
  auto device = MakeDevice();
  auto stream = device->MakeStream().value();
  std::atomic<bool> behind{false};
  const auto behind_work = [&] {
    behind = true;
    return absl::OkStatus();
  };
  ASSERT_TRUE(stream->Enqueue([] { return absl::DataLossError("lost it"); }).ok());
  ASSERT_TRUE(stream->Enqueue(behind_work).ok());
  const absl::Status status = stream->Synchronize(Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "lost it");
  EXPECT_FALSE(behind);
  ASSERT_TRUE(stream->Enqueue(behind_work).ok());
  EXPECT_TRUE(stream->Synchronize(Soon()).ok());
  EXPECT_TRUE(behind);
}

TEST(CpuStreamTest, SynchronizeGivesUpAtItsDeadline) {
  auto device = MakeDevice();
  auto stream = device->MakeStream().value();
  std::latch release(1);
  ASSERT_TRUE(stream
                  ->Enqueue([&] {
                    release.wait();
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(stream->Synchronize(absl::Now()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(stream->Synchronize(absl::InfinitePast()).code(), absl::StatusCode::kDeadlineExceeded);
  release.count_down();
  EXPECT_TRUE(stream->Synchronize(absl::InfiniteFuture()).ok());
}

TEST(CpuStreamTest, DestructionDropsWhatHasNotBegun) {
  auto stream = ThreadStream::Create().value();
  std::atomic<bool> behind{false};
  ASSERT_TRUE(stream
                  ->EnqueueMark([](const absl::Status&, const std::stop_token& stop) {
                    while (!stop.stop_requested()) std::this_thread::yield();
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream
                  ->Enqueue([&] {
                    behind = true;
                    return absl::OkStatus();
                  })
                  .ok());
  stream.reset();
  EXPECT_FALSE(behind);
}

TEST(CpuEventTest, AStreamWaitsForWhatAnotherRecorded) {
  auto device = MakeDevice();
  auto first = device->MakeStream().value();
  auto second = device->MakeStream().value();
  auto event = device->MakeEvent().value();
  std::latch release(1);
  int value = 0;
  ASSERT_TRUE(first
                  ->Enqueue([&] {
                    release.wait();
                    value = 42;
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(event->Record(*first).ok());
  ASSERT_TRUE(event->Wait(*second).ok());
  int seen = 0;
  ASSERT_TRUE(second
                  ->Enqueue([&] {
                    seen = value;
                    return absl::OkStatus();
                  })
                  .ok());
  release.count_down();
  ASSERT_TRUE(second->Synchronize(Soon()).ok());
  EXPECT_EQ(seen, 42);
  // The compute stream waits in the calling thread.
  ASSERT_TRUE(event->Wait(device->stream()).ok());
  EXPECT_EQ(value, 42);
  ASSERT_TRUE(first->Synchronize(Soon()).ok());
}

TEST(CpuEventTest, AnEventThatWasNeverRecordedHoldsNobody) {
  auto device = MakeDevice();
  auto stream = device->MakeStream().value();
  auto event = device->MakeEvent().value();
  EXPECT_TRUE(event->Wait(*stream).ok());
  EXPECT_TRUE(stream->Synchronize(Soon()).ok());
  EXPECT_TRUE(event->Wait(device->stream()).ok());
}

TEST(CpuEventTest, AnErrorReachesTheStreamThatWaits) {
  auto device = MakeDevice();
  auto first = device->MakeStream().value();
  auto second = device->MakeStream().value();
  auto event = device->MakeEvent().value();
  ASSERT_TRUE(first->Enqueue([] { return absl::AbortedError("peer 3 went away"); }).ok());
  ASSERT_TRUE(event->Record(*first).ok());
  ASSERT_TRUE(event->Wait(*second).ok());
  EXPECT_EQ(second->Synchronize(Soon()).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(event->Wait(device->stream()).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(first->Synchronize(Soon()).code(), absl::StatusCode::kAborted);
}

TEST(CpuEventTest, AWaitEndsAtTheDevicesLimit) {
  auto device = MakeDevice(/*event_wait_limit=*/absl::Milliseconds(20));
  auto stream = device->MakeStream().value();
  auto event = device->MakeEvent().value();
  std::latch release(1);
  ASSERT_TRUE(stream
                  ->Enqueue([&] {
                    release.wait();
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(event->Record(*stream).ok());
  EXPECT_EQ(event->Wait(device->stream()).code(), absl::StatusCode::kDeadlineExceeded);
  release.count_down();
  EXPECT_TRUE(stream->Synchronize(Soon()).ok());
}

TEST(CpuEventTest, AWaitingStreamCanBeDestroyed) {
  auto device = MakeDevice(/*event_wait_limit=*/absl::InfiniteDuration());
  auto first = device->MakeStream().value();
  auto second = device->MakeStream().value();
  auto event = device->MakeEvent().value();
  std::latch release(1);
  ASSERT_TRUE(first
                  ->Enqueue([&] {
                    release.wait();
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(event->Record(*first).ok());
  ASSERT_TRUE(event->Wait(*second).ok());
  second.reset();  // hangs for ever if the wait does not see it
  release.count_down();
  EXPECT_TRUE(first->Synchronize(Soon()).ok());
}

TEST(CpuTimerTest, TheTimeOfWorkIsAtLeastWhatItTook) {
  auto device = MakeDevice();
  auto stream = device->MakeStream().value();
  for (Stream* each : {&device->stream(), stream.get()}) {
    auto timer = device->MakeTimer().value();
    ASSERT_TRUE(timer->Start(*each).ok());
    ASSERT_TRUE(each->Enqueue([] {
                      const auto end =
                          std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
                      while (std::chrono::steady_clock::now() < end) {
                      }
                      return absl::OkStatus();
                    })
                    .ok());
    ASSERT_TRUE(timer->Stop(*each).ok());
    ASSERT_TRUE(each->Synchronize(Soon()).ok());
    EXPECT_GE(timer->Elapsed().value(), absl::Milliseconds(2));
  }
}

TEST(CpuTimerTest, ATimerThatDidNotRunHasNoTime) {
  auto device = MakeDevice();
  auto timer = device->MakeTimer().value();
  EXPECT_EQ(timer->Elapsed().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(timer->Start(device->stream()).ok());
  EXPECT_EQ(timer->Elapsed().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CpuTimerTest, TimeThatDoesNotAdvanceIsNoSample) {
  auto device = MakeDevice();
  auto timer = device->MakeTimer().value();
  // Stopped before it was started: elapsed is negative, or zero on a coarse clock.
  ASSERT_TRUE(timer->Start(device->stream()).ok());
  ASSERT_TRUE(timer->Stop(device->stream()).ok());
  auto stream = device->MakeStream().value();
  std::latch release(1);
  ASSERT_TRUE(stream
                  ->Enqueue([&] {
                    release.wait();
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(timer->Start(*stream).ok());          // comes to pass after ...
  ASSERT_TRUE(timer->Stop(device->stream()).ok());  // ... this one
  release.count_down();
  ASSERT_TRUE(stream->Synchronize(Soon()).ok());
  EXPECT_EQ(timer->Elapsed().status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace lcab
