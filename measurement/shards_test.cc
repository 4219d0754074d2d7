#include "measurement/shards.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

// A shard in memory of its own, with room around it that must stay as it is.
struct OwnedShard {
  std::vector<std::byte> memory;
  cp::Shard shard;
};

enum class Layout { kDense, kHeadMajor, kWideRows, kScattered };

OwnedShard MakeShard(Layout layout, DType dtype, TokenSet tokens, Interval heads, int64_t dim) {
  OwnedShard owned;
  const int64_t rows = tokens.rows(), count = heads.size();
  TensorView view{.dtype = dtype, .tokens = rows, .heads = count, .dim = dim};
  switch (layout) {
    case Layout::kDense:
      view.token_stride = count * dim;
      view.head_stride = dim;
      break;
    case Layout::kHeadMajor:
      view.token_stride = dim;
      view.head_stride = rows * dim;
      break;
    case Layout::kWideRows:
      view.token_stride = (count + 2) * dim;
      view.head_stride = dim;
      break;
    case Layout::kScattered:
      view.token_stride = count * (dim + 3) + 1;
      view.head_stride = dim + 3;
      break;
  }
  owned.memory.assign(
      static_cast<size_t>((rows * view.token_stride + count * view.head_stride) * SizeOf(dtype)),
      std::byte{0x5A});
  view.data = owned.memory.data();
  owned.shard = {.tensor = Tensor::kQ, .tokens = std::move(tokens), .heads = heads, .view = view};
  return owned;
}

float ValueAt(int64_t token, int64_t head, int64_t channel) {
  return static_cast<float>((token * 31 + head * 7 + channel) % 127);  // exact in bf16
}

void Source(Tensor, int64_t token, int64_t head, std::span<float> row) {
  for (size_t c = 0; c < row.size(); ++c) row[c] = ValueAt(token, head, static_cast<int64_t>(c));
}

class ShardsTest : public testing::TestWithParam<std::tuple<Layout, DType, int>> {
 protected:
  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
};

INSTANTIATE_TEST_SUITE_P(Layouts, ShardsTest,
                         testing::Combine(testing::Values(Layout::kDense, Layout::kHeadMajor,
                                                          Layout::kWideRows, Layout::kScattered),
                                          testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Values(1, 3)));

TEST_P(ShardsTest, WhatIsWrittenIsVisitedAtItsTokenAndHead) {
  const auto [layout, dtype, heads] = GetParam();
  // Every third token, with a row of padding at the end.
  const TokenSet tokens =
      TokenSet::FromPieces({{.first = 5, .stride = 3, .count = 200, .local_row = 0}}, 201).value();
  OwnedShard owned = MakeShard(layout, dtype, tokens, {4, 4 + heads}, 5);
  ASSERT_TRUE(WriteShards({&owned.shard, 1}, Source, *device_, Soon()).ok());

  std::mutex mutex;
  std::map<std::pair<int64_t, int64_t>, std::vector<float>> seen;
  ASSERT_TRUE(
      VisitRows(
          owned.shard, {0, 100},
          [&](int64_t token, int64_t head, std::span<const float> row, int thread) {
            EXPECT_LT(thread, 2);
            const std::lock_guard lock(mutex);
            const bool added =
                seen.emplace(std::pair{token, head}, std::vector(row.begin(), row.end())).second;
            EXPECT_TRUE(added);
          },
          *device_, Soon())
          .ok());
  EXPECT_EQ(seen.size(), size_t{200} * static_cast<size_t>(heads));
  for (const auto& [place, row] : seen) {
    EXPECT_EQ((place.first - 5) % 3, 0);
    for (size_t c = 0; c < row.size(); ++c) {
      EXPECT_EQ(row[c], ValueAt(place.first, place.second, static_cast<int64_t>(c)));
    }
    EXPECT_EQ(ReadRow(owned.shard, place.first, place.second, *device_, Soon()).value(), row);
  }
  EXPECT_TRUE(ReadRow(owned.shard, 6, 4, *device_, Soon()).value().empty());
  EXPECT_TRUE(ReadRow(owned.shard, 5, 3, *device_, Soon()).value().empty());
  // Padding is 0.
  EXPECT_EQ(*owned.shard.view.At(200, 0), std::byte{0});
}

TEST_P(ShardsTest, OnlyTheHeadsAskedForAreVisited) {
  const auto [layout, dtype, heads] = GetParam();
  OwnedShard owned = MakeShard(layout, dtype, TokenSet::Range(0, 70), {4, 4 + heads}, 5);
  ASSERT_TRUE(WriteShards({&owned.shard, 1}, Source, *device_, Soon()).ok());
  std::mutex mutex;
  int visits = 0;
  ASSERT_TRUE(VisitRows(
                  owned.shard, {3, 5},
                  [&](int64_t token, int64_t head, std::span<const float> row, int) {
                    const std::lock_guard lock(mutex);
                    ++visits;
                    EXPECT_EQ(head, 4);
                    EXPECT_EQ(row[1], ValueAt(token, 4, 1));
                  },
                  *device_, Soon())
                  .ok());
  EXPECT_EQ(visits, 70);
}

TEST_P(ShardsTest, PoisonIsNanEverywhereInTheShardAndNowhereElse) {
  const auto [layout, dtype, heads] = GetParam();
  OwnedShard owned = MakeShard(layout, dtype, TokenSet::Range(0, 9), {0, heads}, 5);
  ASSERT_TRUE(Poison({&owned.shard, 1}, *device_).ok());
  int64_t poisoned = 0;
  for (const std::byte byte : owned.memory) poisoned += byte == std::byte{0xFF} ? 1 : 0;
  EXPECT_EQ(poisoned, int64_t{9} * heads * 5 * SizeOf(dtype));
  const std::vector<float> row = ReadRow(owned.shard, 8, heads - 1, *device_, Soon()).value();
  ASSERT_EQ(row.size(), 5U);
  for (const float value : row) {
    EXPECT_TRUE(std::isnan(value));
    EXPECT_TRUE(IsPoison(value));
  }
}

TEST(ShardsOfRowStatisticsTest, AreReadAndPoisonedByHeadAndRow) {
  const std::unique_ptr<Device> device = MakeCpuDevice({.threads = 2}).value();
  std::vector<float> memory(size_t{3} * 80);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const cp::Shard shard = {
      .tensor = Tensor::kLse,
      .tokens = TokenSet::Strided(1, 2, 80),
      .heads = {2, 5},
      .row_stat = {.data = memory.data(), .heads = 3, .tokens = 80, .head_stride = 80}};
  EXPECT_EQ(RowsOf(shard), 80);
  EXPECT_EQ(DimOf(shard), 1);
  // Token 11 is row 5; head 4 is the third.
  EXPECT_THAT(ReadRow(shard, 11, 4, *device, Soon()).value(), testing::ElementsAre(165));
  std::mutex mutex;
  double sum = 0;
  ASSERT_TRUE(VisitRows(
                  shard, {3, 4},
                  [&](int64_t, int64_t, std::span<const float> row, int) {
                    const std::lock_guard lock(mutex);
                    sum += row[0];
                  },
                  *device, Soon())
                  .ok());
  EXPECT_EQ(sum, (80 + 159) * 80 / 2.0);
  ASSERT_TRUE(Poison({&shard, 1}, *device).ok());
  EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), IsPoison));
}

TEST(IsPoisonTest, IsTheBitsThatPoisonPutsThereAndNoOtherNan) {
  EXPECT_FALSE(IsPoison(std::nanf("")));
  EXPECT_FALSE(IsPoison(-INFINITY));
  EXPECT_FALSE(IsPoison(0));
  EXPECT_TRUE(IsPoison(ToFloat(BFloat16{0xFFFF})));
}

}  // namespace
}  // namespace lcab::measurement
