#include "worker/rank_output.h"

#include <string>

#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(RankOutput, BelongsToTheTrialThatTheRankWasAt) {
  RankOutput output(3);
  output.Append("before any trial\n", kStart);
  output.TurnTo(3);
  output.Append("three\n", kStart);
  output.TurnTo(4);
  output.Append("four\n", kStart);
  const auto three = output.Flush(3);
  ASSERT_EQ(three.size(), 1u);
  EXPECT_EQ(three[0].trial, 3);
  EXPECT_EQ(three[0].text, "before any trial\nthree\n");
  EXPECT_EQ(output.last(), "four\n");
  EXPECT_EQ(output.FlushAll().size(), 1u);
}

TEST(RankOutput, SmallTextWaitsALittleAndIsGathered) {
  RankOutput output(0);
  output.Append("a\n", kStart);
  output.Append("b\n", kStart + absl::Milliseconds(50));
  EXPECT_TRUE(output.TakeDue(kStart + absl::Milliseconds(100)).empty());
  const absl::Time due = output.next_deadline();
  EXPECT_LT(due, kStart + absl::Seconds(1));
  const auto pieces = output.TakeDue(due);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, "a\nb\n");
  EXPECT_EQ(output.next_deadline(), absl::InfiniteFuture());
}

TEST(RankOutput, LargeTextGoesAtOnce) {
  RankOutput output(0);
  output.Append(std::string(100'000, 'x'), kStart);
  ASSERT_EQ(output.TakeDue(kStart).size(), 1u);
}

TEST(RankOutput, OneTrialsFloodTakesNothingFromAnother) {
  RankOutput output(0);
  output.Append(std::string(10 << 20, 'x'), kStart);
  output.TurnTo(1);
  output.Append("short\n", kStart);
  const auto pieces = output.Flush(1);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, "short\n");
}

}  // namespace
}  // namespace lcab::worker
