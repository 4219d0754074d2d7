#include "device/cpu/cpu_workers.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lcab {
namespace {

TEST(CpuWorkersTest, EveryPartRunsOnceWhateverTheCounts) {
  for (const int threads : {1, 2, 3, 7}) {
    auto workers = CpuWorkers::Create(threads).value();
    for (const int64_t parts : {0, 1, 2, 3, 64, 1009}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(parts));
      workers->Run(parts, [&](int64_t part, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        runs[static_cast<size_t>(part)].fetch_add(1, std::memory_order_relaxed);
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(CpuWorkersTest, WhatPartsWroteIsSeenAfterRun) {
  auto workers = CpuWorkers::Create(4).value();
  std::vector<int64_t> squares(257);
  for (int64_t round = 0; round < 2000; ++round) {
    workers->Run(static_cast<int64_t>(squares.size()), [&](int64_t part, int) {
      squares[static_cast<size_t>(part)] = part * part + round;
    });
    int64_t sum = 0;
    for (const int64_t square : squares) sum += square;
    // 0^2 + ... + 256^2 = 256 * 257 * 513 / 6
    ASSERT_EQ(sum, 256 * 257 * 513 / 6 + 257 * round);
  }
}

TEST(CpuWorkersTest, ThreadNumbersAreNotSharedAtTheSameTime) {
  constexpr int kThreads = 4;
  auto workers = CpuWorkers::Create(kThreads).value();
  std::vector<std::atomic<int>> inside(kThreads);
  workers->Run(5000, [&](int64_t, int thread) {
    EXPECT_EQ(inside[static_cast<size_t>(thread)].fetch_add(1), 0);
    inside[static_cast<size_t>(thread)].fetch_sub(1);
  });
}

TEST(CpuWorkersTest, CallersOfSeveralThreadsTakeTurns) {
  auto workers = CpuWorkers::Create(3).value();
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        workers->Run(10, [&](int64_t part, int) { total += part; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 45);
}

TEST(CpuWorkersTest, ARunWithinAPartRunsInThatPartsThread) {
  auto workers = CpuWorkers::Create(3).value();
  std::atomic<int64_t> total{0};
  workers->Run(6, [&](int64_t, int outer) {
    const std::thread::id id = std::this_thread::get_id();
    workers->Run(5, [&](int64_t part, int inner) {
      EXPECT_EQ(inner, outer);
      EXPECT_EQ(std::this_thread::get_id(), id);
      total += part;
    });
  });
  EXPECT_EQ(total, 6 * 10);
}

TEST(CpuWorkersTest, PartsWakeThreadsThatAreParked) {
  auto workers = CpuWorkers::Create(2).value();
  for (int round = 0; round < 50; ++round) {
    // Two parts that wait for each other finish only if a second thread takes one.
    std::atomic<int> arrived{0};
    workers->Run(2, [&](int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
    // Longer than threads spin: the next round finds them parked.
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
}

TEST(CpuWorkersTest, RunOnEachUsesEveryThreadOnce) {
  constexpr int kThreads = 5;
  auto workers = CpuWorkers::Create(kThreads).value();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::atomic<int>> runs(kThreads);
    workers->RunOnEach([&](int thread) { ++runs[static_cast<size_t>(thread)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(CpuWorkersTest, NoThreadsIsRefused) {
  EXPECT_EQ(CpuWorkers::Create(0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lcab
