// Random block maps.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention/draws.h"
#include "attention/made_masks_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::HasSubstr;

TEST(BlockSparseMasksTest, BlockSparseMasksKeepTheirShareInEachRowOfBlocks) {
  for (const double keep : {0.1, 0.2, 0.5, 0.8, 1.0}) {
    const Mask mask =
        Made("block_sparse_uniform", {{"block", Whole(64)}, {"keep", Value{keep}}}, 1000, 3, 0, 4);
    ASSERT_EQ(mask.groups(), 4);
    // 16 columns of blocks; the nearest number, of which one at least.
    const auto kept = static_cast<int64_t>(std::floor(keep * 16 + 0.5));
    for (int64_t g = 0; g < 4; ++g) {
      const BlockMap& map = *mask.block_map(g);
      ASSERT_EQ(map.rows(), 16);
      EXPECT_EQ(map.ColumnTokens(15), (Interval{960, 1000}));
      for (int64_t row = 0; row < 16; ++row) {
        int64_t selected = 0;
        for (int64_t column = 0; column < 16; ++column) selected += map.Selected(row, column);
        EXPECT_EQ(selected, kept) << keep;
      }
    }
    EXPECT_EQ(*mask.block_map(0) == *mask.block_map(1), keep == 1.0);
  }
  const Mask one = Made("block_sparse_uniform", {{"keep", Value{1e-6}}}, 1000);
  EXPECT_EQ(one.RowCount(0, 0), 128);
}

// The definition, by sorting whole rows of draws.
TEST(BlockSparseMasksTest, EachRowOfBlocksKeepsTheColumnsWithTheSmallestDraws) {
  for (const int64_t tokens : {1, 7, 64, 509}) {
    for (const double keep : {1e-6, 0.2, 0.77, 1.0}) {
      const Mask mask = Made("block_sparse_uniform", {{"block", Whole(1)}, {"keep", Value{keep}}},
                             tokens, 5, 2, 2);
      const auto wanted = std::max<size_t>(
          static_cast<size_t>(std::floor(keep * static_cast<double>(tokens) + 0.5)), 1);
      for (int64_t head = 0; head < 2; ++head) {
        PhiloxStream random = DrawStream(5, DrawPurpose::kBlockScores, 2, head);
        for (int64_t row = 0; row < tokens; ++row) {
          std::vector<std::pair<uint32_t, int64_t>> draws;
          for (int64_t column = 0; column < tokens; ++column) {
            draws.emplace_back(random.Next32(), column);
          }
          std::sort(draws.begin(), draws.end());
          for (size_t n = 0; n < draws.size(); ++n) {
            EXPECT_EQ(mask.block_map(head)->Selected(row, draws[n].second), n < wanted);
          }
        }
        EXPECT_EQ(mask.Area(head), tokens * static_cast<int64_t>(wanted));
      }
    }
  }
}

TEST(BlockSparseMasksTest, BlockSparseChoicesAreSpreadEvenly) {
  const Mask mask = Made("block_sparse_uniform", {{"block", Whole(1)}, {"keep", Value{0.2}}}, 1000);
  // Each column is kept by 200 of 1000 rows, give or take 5 deviations of sqrt(1000 * 0.2 * 0.8).
  for (int64_t key = 0; key < 1000; ++key) EXPECT_NEAR(mask.ColumnCount(0, key), 200, 64);
}

TEST(BlockSparseMasksTest, VariableBlocksHaveTheirLeastSizeAndAverage) {
  const Mask mask =
      Made("block_sparse_variable", {{"average_block", Whole(256)}, {"min_block", Whole(100)}},
           100000, 1, 0, 2);
  for (const auto* edges : {&mask.block_map(0)->row_edges, &mask.block_map(0)->column_edges}) {
    EXPECT_EQ(edges->size(), 100000u / 256 + 1);
    int64_t largest = 0;
    for (size_t n = 1; n < edges->size(); ++n) {
      EXPECT_GE((*edges)[n] - (*edges)[n - 1], 100);
      largest = std::max(largest, (*edges)[n] - (*edges)[n - 1]);
    }
    EXPECT_GT(largest, 400);
  }
  EXPECT_NE(mask.block_map(0)->row_edges, mask.block_map(0)->column_edges);
  EXPECT_EQ(mask.block_map(0)->row_edges, mask.block_map(1)->row_edges);
  // Fewer tokens than the least size: one block of what there is.
  EXPECT_EQ(Made("block_sparse_variable", {}, 50).Area(0), 2500);
}

TEST(BlockSparseMasksTest, BlocksThatDoNotFitAreRefusedInWords) {
  EXPECT_THAT(Refusal("block_sparse_variable", {{"average_block", Whole(100)}}, 8, 8),
              HasSubstr("'min_block' is 128, more than 'average_block', which is 100"));
  EXPECT_THAT(
      Refusal("block_sparse_uniform", {{"block", Whole(1)}}, 1 << 20, 1 << 20),
      HasSubstr("1048576 x 1048576 blocks for each of 1 kv heads take 1024.0 GiB of memory, "
                "more than 2.0 GiB; use larger blocks"));
  // Of these not even the edges would fit in memory.
  EXPECT_THAT(
      Refusal("block_sparse_uniform", {{"block", Whole(1)}}, Mask::kMaxTokens, Mask::kMaxTokens),
      HasSubstr("use larger blocks"));
  EXPECT_THAT(
      Refusal("block_sparse_variable", {{"average_block", Whole(1)}, {"min_block", Whole(1)}},
              Mask::kMaxTokens, Mask::kMaxTokens),
      HasSubstr("use larger blocks"));
}

}  // namespace
}  // namespace lcab
