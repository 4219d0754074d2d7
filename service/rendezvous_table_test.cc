#include "service/rendezvous_table.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace lcab::service {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

// Keeps what it was answered, and how often.
struct Waiting {
  std::optional<absl::StatusOr<std::string>> value;
  int answers = 0;

  RendezvousTable::Answer Answer() {
    return [this](absl::StatusOr<std::string> answer) {
      value = std::move(answer);
      ++answers;
    };
  }
};

TEST(RendezvousTable, ValueReachesThoseWhoWaitedAndThoseWhoAskLater) {
  RendezvousTable table;
  table.Open("a");
  Waiting early, late;
  table.Get("a", "key", kStart, early.Answer());
  EXPECT_FALSE(early.value.has_value());
  ASSERT_TRUE(table.Put("a", "key", "value").ok());
  table.Get("a", "key", kStart, late.Answer());
  EXPECT_EQ(early.value->value(), "value");
  EXPECT_EQ(late.value->value(), "value");
  EXPECT_EQ(early.answers + late.answers, 2);
}

TEST(RendezvousTable, KeyIsWrittenOnceAndTheSameValueAgainIsFine) {
  RendezvousTable table;
  table.Open("a");
  ASSERT_TRUE(table.Put("a", "key", "first").ok());
  EXPECT_TRUE(table.Put("a", "key", "first").ok());
  EXPECT_EQ(table.Put("a", "key", "second").code(), absl::StatusCode::kAlreadyExists);
  Waiting waiting;
  table.Get("a", "key", kStart, waiting.Answer());
  EXPECT_EQ(waiting.value->value(), "first");
}

TEST(RendezvousTable, AssignmentsDoNotSeeEachOthersKeys) {
  RendezvousTable table;
  table.Open("a");
  table.Open("b");
  ASSERT_TRUE(table.Put("a", "key", "of a").ok());
  Waiting waiting;
  table.Get("b", "key", kStart, waiting.Answer());
  EXPECT_FALSE(waiting.value.has_value());
  ASSERT_TRUE(table.Put("b", "key", "of b").ok());
  EXPECT_EQ(waiting.value->value(), "of b");
}

TEST(RendezvousTable, OnlyWaitersWhoseDeadlineHasComeAreToldAndTheKeyIsNamed) {
  RendezvousTable table;
  table.Open("a");
  Waiting first, second;
  table.Get("a", "vote/1", kStart + absl::Seconds(1), first.Answer());
  table.Get("a", "vote/1", kStart + absl::Seconds(5), second.Answer());
  EXPECT_EQ(table.Expire(kStart), kStart + absl::Seconds(1));
  EXPECT_FALSE(first.value.has_value());
  EXPECT_EQ(table.Expire(kStart + absl::Seconds(1)), kStart + absl::Seconds(5));
  ASSERT_TRUE(first.value.has_value());
  EXPECT_EQ(first.value->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(std::string(first.value->status().message()).find("vote/1"), std::string::npos);
  EXPECT_FALSE(second.value.has_value());
  ASSERT_TRUE(table.Put("a", "vote/1", "yes").ok());
  EXPECT_EQ(second.value->value(), "yes");
  EXPECT_EQ(first.answers, 1);
  EXPECT_EQ(table.Expire(kStart + absl::Hours(1)), absl::InfiniteFuture());
}

TEST(RendezvousTable, AbortWakesEveryWaiterAndStaysInForce) {
  RendezvousTable table;
  table.Open("a");
  Waiting one, two, later;
  table.Get("a", "x", kStart, one.Answer());
  table.Get("a", "y", kStart, two.Answer());
  table.Abort("a", "rank 1 is gone");
  table.Abort("a", "a second reason");
  table.Get("a", "x", kStart, later.Answer());
  for (const Waiting* waiting : {&one, &two, &later}) {
    ASSERT_TRUE(waiting->value.has_value());
    EXPECT_EQ(waiting->value->status(), absl::AbortedError("rank 1 is gone"));
    EXPECT_EQ(waiting->answers, 1);
  }
  EXPECT_EQ(table.Put("a", "x", "late"), absl::AbortedError("rank 1 is gone"));
}

TEST(RendezvousTable, ClosedOrUnknownAssignmentRefuses) {
  RendezvousTable table;
  table.Open("a");
  Waiting waiting, unknown;
  table.Get("a", "x", kStart, waiting.Answer());
  table.Close("a");
  EXPECT_EQ(waiting.value->status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table.Put("a", "x", "v").code(), absl::StatusCode::kFailedPrecondition);
  table.Get("b", "x", kStart, unknown.Answer());
  EXPECT_EQ(unknown.value->status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RendezvousTable, AssignmentCannotHoldMoreThanItsShare) {
  RendezvousTable table(/*max_bytes=*/10);
  table.Open("a");
  table.Open("b");
  ASSERT_TRUE(table.Put("a", "k1", "123").ok());
  EXPECT_EQ(table.Put("a", "k2", "1234").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(table.Put("a", "k2", "123").ok());
  EXPECT_TRUE(table.Put("b", "k2", "12345678").ok());
}

TEST(RendezvousTable, WaitersAreAnsweredWhenTheTableGoesAway) {
  Waiting waiting;
  {
    RendezvousTable table;
    table.Open("a");
    table.Get("a", "x", kStart, waiting.Answer());
  }
  ASSERT_TRUE(waiting.value.has_value());
  EXPECT_EQ(waiting.value->status().code(), absl::StatusCode::kAborted);
}

TEST(RendezvousTable, EveryGetIsAnsweredOnceWhilePutsAndAnAbortRace) {
  RendezvousTable table;
  table.Open("a");
  constexpr int kKeys = 200;
  std::atomic<int> answers = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kKeys; ++i) {
        table.Get("a", fmt::format("{}", i), kStart,
                  [&](const absl::StatusOr<std::string>&) { ++answers; });
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kKeys / 2; ++i) (void)table.Put("a", fmt::format("{}", i), "v");
    table.Abort("a", "stop");
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers, 3 * kKeys);
}

}  // namespace
}  // namespace lcab::service
