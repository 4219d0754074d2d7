#include "kernels/cpu/tile_schedule.h"

#include <cstdint>
#include <string>
#include <vector>

#include "attention/mask.h"
#include "attention/masks.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

constexpr TileShape kShape = {.rows = 12, .panel = 4, .keys = 16};

// How often the schedule presents each (row of the group, key).
std::vector<int> Presented(const TileSchedule& schedule, const TileShape& shape, int64_t rows,
                           int64_t keys) {
  std::vector<int> presented(static_cast<size_t>(rows * keys), 0);
  for (int64_t tile = 0; tile < schedule.tiles(); ++tile) {
    for (const KeySpan& span : schedule.Spans(tile)) {
      EXPECT_EQ(span.first_key % shape.panel, 0);
      EXPECT_EQ(span.keys % shape.panel, 0);
      EXPECT_GT(span.keys, 0);
      const int16_t* bounds = schedule.Bounds(span);
      if (bounds != nullptr) {
        EXPECT_EQ(span.first_key / shape.keys, (span.first_key + span.keys - 1) / shape.keys);
      }
      for (int64_t row = 0; row < shape.rows; ++row) {
        const int64_t lower = bounds == nullptr ? 0 : bounds[row];
        const int64_t upper = bounds == nullptr ? span.keys : bounds[shape.rows + row];
        if (tile * shape.rows + row >= rows) {
          // Rows that do not exist may be in full spans only: nobody looks at them there.
          EXPECT_TRUE(bounds == nullptr || lower == upper);
          continue;
        }
        EXPECT_LE(upper, span.keys);
        for (int64_t key = span.first_key + lower; key < span.first_key + upper; ++key) {
          EXPECT_LT(key, keys);
          if (key < keys) {
            ++presented[static_cast<size_t>((tile * shape.rows + row) * keys + key)];
          }
        }
      }
    }
  }
  return presented;
}

void ExpectExactlyTheMask(const Mask& mask, int64_t heads_per_kv, const TileShape& shape,
                          const std::string& what) {
  for (int64_t group = 0; group < mask.groups(); ++group) {
    const TileSchedule schedule(mask, group, heads_per_kv, shape);
    const int64_t rows = mask.q_tokens() * heads_per_kv;
    const std::vector<int> presented = Presented(schedule, shape, rows, mask.k_tokens());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t key = 0; key < mask.k_tokens(); ++key) {
        ASSERT_EQ(presented[static_cast<size_t>(row * mask.k_tokens() + key)],
                  mask.Allows(group, row / heads_per_kv, key) ? 1 : 0)
            << what << " group " << group << " row " << row << " key " << key;
      }
    }
  }
}

Mask Slices(int64_t q_tokens, int64_t k_tokens, const std::vector<Slice>& slices) {
  return Mask::FromSlices(q_tokens, k_tokens, slices).value();
}

TEST(TileScheduleTest, EveryPairOfTheMaskIsPresentedOnceAndNoOther) {
  for (const auto& [q_tokens, k_tokens] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 50}, {50, 1}, {12, 16}, {13, 17}, {47, 61}, {96, 128}, {0, 9}, {9, 0}}) {
    for (const SliceKind kind :
         {SliceKind::kFull, SliceKind::kCausal, SliceKind::kInvCausal, SliceKind::kBiCausal}) {
      for (const int64_t heads_per_kv : {1, 3, 8}) {
        ExpectExactlyTheMask(Slices(q_tokens, k_tokens, {{0, q_tokens, 0, k_tokens, kind}}),
                             heads_per_kv, kShape, "one slice");
      }
    }
  }
}

TEST(TileScheduleTest, RowsWithSeveralIntervalsAreCutApart) {
  // Every row sees two or three short intervals of one block of keys.
  std::vector<Slice> slices;
  for (int64_t row = 0; row < 30; ++row) {
    slices.push_back({row, row + 1, row % 5, row % 5 + 2, SliceKind::kFull});
    slices.push_back({row, row + 1, row % 5 + 3, row % 5 + 4, SliceKind::kFull});
    slices.push_back({row, row + 1, 12 + row % 3, 15, SliceKind::kFull});
  }
  ExpectExactlyTheMask(Slices(30, 16, slices), 1, kShape, "several intervals");
  ExpectExactlyTheMask(Slices(30, 16, slices), 2, kShape, "several intervals");
}

TEST(TileScheduleTest, EveryNamedMaskIsPresentedExactly) {
  for (const MaskType& type : MaskTypes()) {
    if (type.name == "slices") continue;
    for (const int64_t tokens : {1, 101}) {
      Options options;
      if (type.name.starts_with("sliding")) options["window"] = Value{int64_t{7}};
      const absl::StatusOr<Mask> mask =
          MakeMask(type.name, options, {tokens, tokens, /*kv_heads=*/2, /*seed=*/5, /*draw=*/1});
      if (!mask.ok()) continue;  // too short for it
      ExpectExactlyTheMask(*mask, 2, kShape, type.name);
    }
  }
}

TEST(TileScheduleTest, TimeFollowsTheArea) {
  constexpr int64_t kTokens = 4096;
  const TileShape shape = {.rows = 48, .panel = 8, .keys = 128};
  const auto visited = [&](const Mask& mask) {
    const TileSchedule schedule(mask, 0, 1, shape);
    int64_t keys = 0;
    for (int64_t tile = 0; tile < schedule.tiles(); ++tile) keys += schedule.VisitedKeys(tile);
    return keys * shape.rows;
  };
  const MaskContext context = {kTokens, kTokens, 1, 0, 0};
  for (const char* name : {"full", "causal", "sliding_window_causal"}) {
    Options options;
    if (std::string(name) == "sliding_window_causal") options["window"] = Value{int64_t{256}};
    const Mask mask = MakeMask(name, options, context).value();
    // At most the rows of a tile and two panels more than a row sees: 304 / 257 for the window.
    EXPECT_LE(visited(mask), mask.Area(0) * 5 / 4) << name;
    EXPECT_GE(visited(mask), mask.Area(0)) << name;
  }
}

TEST(TileScheduleTest, AMillionTokensOfFullAttentionTakeFewBytes) {
  constexpr int64_t kTokens = int64_t{1} << 20;
  const Mask mask = MakeMask("causal", {}, {kTokens, kTokens, 1, 0, 0}).value();
  const TileSchedule schedule(mask, 0, 1, {.rows = 48, .panel = 8, .keys = 128});
  // One long span and one or two with bounds a tile.
  EXPECT_LT(schedule.bytes(), kTokens / 48 * (8 + 3 * 24 + 2 * 2 * 2 * 48 + 64));
}

}  // namespace
}  // namespace lcab
