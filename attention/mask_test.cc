// Every question to a mask, held against counting pairs.

#include "attention/mask.h"

#include <algorithm>
#include <limits>

#include "attention/dense_pairs_for_test.h"
#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

int64_t Draw(PhiloxStream* random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random->Below(static_cast<uint64_t>(high - low + 1)));
}

std::vector<int64_t> RandomEdges(PhiloxStream* random, int64_t tokens) {
  std::vector<int64_t> edges = {0};
  while (edges.back() < tokens)
    edges.push_back(std::min(tokens, edges.back() + Draw(random, 1, 5)));
  return edges;
}

BlockMap RandomBlockMap(PhiloxStream* random, int64_t q_tokens, int64_t k_tokens) {
  BlockMap map{RandomEdges(random, q_tokens), RandomEdges(random, k_tokens), {}};
  const uint64_t one_in = 1 + random->Below(3);
  for (int64_t n = map.rows() * map.columns(); n > 0; --n) {
    map.selected.push_back(random->Below(one_in + 1) == 0 ? 0 : 1);
  }
  return map;
}

// Disjoint bands, some of them with slanted ends, and by chance a block map.
HeadGroup RandomGroup(PhiloxStream* random, int64_t q_tokens, int64_t k_tokens, bool block_map) {
  HeadGroup group;
  DensePairs taken(q_tokens, k_tokens);
  for (int n = 0; n < 8; ++n) {
    Band band{Draw(random, -1, q_tokens), 0, Draw(random, -1, k_tokens), 0, {}, {}};
    band.q1 = Draw(random, band.q0, q_tokens + 1);
    band.k1 = Draw(random, band.k0, k_tokens + 1);
    if (random->Below(2) == 0) band.lower = Draw(random, band.k0 - band.q1, band.k1 - band.q0);
    if (random->Below(2) == 0) band.upper = Draw(random, band.k0 - band.q1, band.k1 - band.q0 + 1);
    DensePairs with = taken;
    bool overlaps = false;
    for (int64_t i = 0; i < q_tokens; ++i) {
      for (int64_t j = 0; j < k_tokens; ++j) {
        if (!DensePairs::InBand(band, i, j)) continue;
        overlaps |= taken.At(i, j);
        with.Set(i, j, true);
      }
    }
    if (overlaps) continue;
    taken = with;
    group.bands.push_back(band);
  }
  if (block_map) group.block_map = RandomBlockMap(random, q_tokens, k_tokens);
  return group;
}

DensePairs Dense(const HeadGroup& group, int64_t q_tokens, int64_t k_tokens) {
  return DensePairs::From(q_tokens, k_tokens, [&](int64_t i, int64_t j) {
    if (group.block_map && !group.block_map->Selected(BlockOf(group.block_map->row_edges, i),
                                                      BlockOf(group.block_map->column_edges, j))) {
      return false;
    }
    return std::any_of(group.bands.begin(), group.bands.end(),
                       [&](const Band& band) { return DensePairs::InBand(band, i, j); });
  });
}

Mask Causal(int64_t tokens) {
  return Mask::FromSlices(tokens, tokens,
                          std::vector<Slice>{{0, tokens, 0, tokens, SliceKind::kCausal}})
      .value();
}

TEST(MaskTest, CausalMaskHasOneBandAndTriangularArea) {
  const Mask mask = Causal(1024);
  EXPECT_EQ(mask.Area(0), 1024 * 1025 / 2);
  EXPECT_THAT(mask.bands(0), ElementsAre(Band{0, 1024, 0, 1024, {}, 1}));
  EXPECT_EQ(mask.Classify(0, {0, 128}, {128, 256}), TileKind::kEmpty);
  EXPECT_EQ(mask.Classify(0, {0, 128}, {0, 128}), TileKind::kPartial);
  EXPECT_EQ(mask.Classify(0, {127, 255}, {0, 128}), TileKind::kFull);
  EXPECT_EQ(mask.Classify(0, {126, 255}, {0, 128}), TileKind::kPartial);
}

TEST(MaskTest, MasksWithoutTokensOrPairsAnswerEveryQuestion) {
  for (const Mask& mask : {Mask(), Mask::FromSlices(0, 7, {}).value(),
                           Mask::FromSlices(7, 0, std::vector<Slice>{{0, 7, 0, 9}}).value(),
                           Mask::FromSlices(5, 3, {}).value()}) {
    EXPECT_EQ(mask.groups(), 1);
    EXPECT_EQ(mask.Area(0), 0);
    EXPECT_THAT(mask.bands(0), IsEmpty());
    std::vector<Interval> intervals = {{1, 2}};
    mask.RowKeys(0, 0, &intervals);
    EXPECT_THAT(intervals, IsEmpty());
    mask.ColumnRows(0, 0, &intervals);
    EXPECT_THAT(intervals, IsEmpty());
    EXPECT_EQ(mask.Classify(0, {0, 8}, {0, 8}), TileKind::kEmpty);
    EXPECT_THAT(mask.EdgeRows(0, 10), IsEmpty());
    EXPECT_EQ(mask.Restrict(TokenSet::Range(0, mask.q_tokens()),
                            TokenSet::Range(0, mask.k_tokens()), {0, 1}),
              mask);
    EXPECT_EQ(mask.Digest(), mask.Digest());
  }
}

TEST(MaskTest, EveryAnswerAgreesWithCounting) {
  PhiloxStream random(1, 0);
  for (int round = 0; round < 400; ++round) {
    const int64_t q_tokens = Draw(&random, 1, 17), k_tokens = Draw(&random, 1, 19);
    const HeadGroup group = RandomGroup(&random, q_tokens, k_tokens, round % 2 == 1);
    const DensePairs dense = Dense(group, q_tokens, k_tokens);
    const Mask mask = Mask::Create(q_tokens, k_tokens, {group}).value();
    ASSERT_EQ(mask.Area(0), dense.Count());
    ASSERT_EQ(DensePairs::FromRowKeys(mask, 0), dense);
    std::vector<Interval> intervals;
    for (int64_t j = 0; j < k_tokens; ++j) {
      mask.ColumnRows(0, j, &intervals);
      int64_t count = 0;
      for (const Interval& rows : intervals) {
        ASSERT_EQ(dense.Count(rows, {j, j + 1}), rows.size());
        count += rows.size();
      }
      ASSERT_EQ(count, dense.Count({0, q_tokens}, {j, j + 1}));
      ASSERT_EQ(mask.ColumnCount(0, j), count);
      for (size_t n = 1; n < intervals.size(); ++n) {
        ASSERT_GT(intervals[n].begin, intervals[n - 1].end);
      }
    }
    for (int64_t i = 0; i < q_tokens; ++i) {
      ASSERT_EQ(mask.RowCount(0, i), dense.Count({i, i + 1}, {0, k_tokens}));
      mask.RowKeys(0, i, &intervals);
      for (size_t n = 1; n < intervals.size(); ++n) {
        ASSERT_GT(intervals[n].begin, intervals[n - 1].end);
      }
      for (int64_t j = 0; j < k_tokens; ++j) ASSERT_EQ(mask.Allows(0, i, j), dense.At(i, j));
    }
    for (int tile = 0; tile < 20; ++tile) {
      Interval rows{Draw(&random, 0, q_tokens), 0}, keys{Draw(&random, 0, k_tokens), 0};
      rows.end = Draw(&random, rows.begin, q_tokens);
      keys.end = Draw(&random, keys.begin, k_tokens);
      const int64_t count = dense.Count(rows, keys);
      ASSERT_EQ(mask.Area(0, rows, keys), count);
      ASSERT_EQ(mask.Classify(0, rows, keys), count == 0 ? TileKind::kEmpty
                                              : count == rows.size() * keys.size()
                                                  ? TileKind::kFull
                                                  : TileKind::kPartial);
    }
  }
}

TEST(MaskTest, TilesThatStickOutArePartialAtMost) {
  const Mask mask = Mask::FromSlices(10, 10, std::vector<Slice>{{0, 10, 0, 10}}).value();
  EXPECT_EQ(mask.Classify(0, {0, 10}, {0, 10}), TileKind::kFull);
  EXPECT_EQ(mask.Classify(0, {8, 12}, {0, 10}), TileKind::kPartial);
  EXPECT_EQ(mask.Classify(0, {0, 10}, {-1, 10}), TileKind::kPartial);
  EXPECT_EQ(mask.Classify(0, {10, 20}, {0, 10}), TileKind::kEmpty);
  EXPECT_EQ(mask.Area(0, {kLowest, kHighest}, {kLowest, kHighest}), 100);
  EXPECT_EQ(mask.Classify(0, {0, kHighest}, {0, 1}), TileKind::kPartial);
}

TEST(MaskTest, MasksOfTheSamePairsAreEqualAndHaveEqualDigests) {
  PhiloxStream random(2, 0);
  for (int round = 0; round < 300; ++round) {
    const int64_t q_tokens = Draw(&random, 1, 9), k_tokens = Draw(&random, 1, 9);
    const HeadGroup group = RandomGroup(&random, q_tokens, k_tokens, round % 2 == 1);
    const Mask mask = Mask::Create(q_tokens, k_tokens, {group}).value();
    // The same bands, row by row; the same map with every block cut to one token.
    HeadGroup split;
    for (int64_t i = 0; i < q_tokens; ++i) {
      for (const Band& band : group.bands) {
        split.bands.push_back(Clip(band, {i, i + 1}, {0, k_tokens}));
      }
    }
    if (group.block_map) {
      BlockMap fine;
      for (int64_t i = 0; i <= q_tokens; ++i) fine.row_edges.push_back(i);
      for (int64_t j = 0; j <= k_tokens; ++j) fine.column_edges.push_back(j);
      for (int64_t i = 0; i < q_tokens; ++i) {
        for (int64_t j = 0; j < k_tokens; ++j) {
          fine.selected.push_back(
              group.block_map->Selected(BlockOf(group.block_map->row_edges, i),
                                        BlockOf(group.block_map->column_edges, j))
                  ? 1
                  : 0);
        }
      }
      split.block_map = fine;
    }
    const Mask same = Mask::Create(q_tokens, k_tokens, {split}).value();
    ASSERT_EQ(mask, same);
    ASSERT_EQ(mask.Digest(), same.Digest());
    // One pair more or less makes another mask.
    const int64_t i = Draw(&random, 0, q_tokens - 1), j = Draw(&random, 0, k_tokens - 1);
    HeadGroup other;
    const DensePairs dense = Dense(group, q_tokens, k_tokens);
    for (int64_t row = 0; row < q_tokens; ++row) {
      for (int64_t key = 0; key < k_tokens; ++key) {
        if (dense.At(row, key) != (row == i && key == j)) {
          other.bands.push_back({row, row + 1, key, key + 1, {}, {}});
        }
      }
    }
    const Mask different = Mask::Create(q_tokens, k_tokens, {other}).value();
    ASSERT_NE(mask, different);
    ASSERT_NE(mask.Digest(), different.Digest());
  }
  EXPECT_NE(Causal(5).Digest(),
            Mask::FromSlices(6, 5, std::vector<Slice>{{0, 5, 0, 5, SliceKind::kCausal}})->Digest());
}

TEST(MaskTest, BlockMapThatKeepsEverythingIsNoBlockMap) {
  const HeadGroup bands{{{0, 8, 0, 8, {}, 1}}, std::nullopt};
  HeadGroup all = bands;
  all.block_map = BlockMap{{0, 4, 8}, {0, 4, 8}, {1, 1, 1, 1}};
  HeadGroup none = bands;
  none.block_map = BlockMap{{0, 4, 8}, {0, 4, 8}, {0, 0, 0, 0}};
  EXPECT_EQ(Mask::Create(8, 8, {all}).value(), Mask::Create(8, 8, {bands}).value());
  EXPECT_EQ(Mask::Create(8, 8, {all})->Digest(), Mask::Create(8, 8, {bands})->Digest());
  EXPECT_EQ(Mask::Create(8, 8, {none}).value(), Mask::FromSlices(8, 8, {}).value());
  // As given for kernels that want regular blocks.
  EXPECT_EQ(Mask::Create(8, 8, {all})->block_map(0)->rows(), 2);
}

TEST(MaskTest, EdgeRowsAreWhereTheKeysChangeTheirForm) {
  PhiloxStream random(3, 0);
  for (int round = 0; round < 200; ++round) {
    const int64_t q_tokens = Draw(&random, 3, 17), k_tokens = Draw(&random, 3, 19);
    const HeadGroup group = RandomGroup(&random, q_tokens, k_tokens, round % 2 == 1);
    const Mask mask = Mask::Create(q_tokens, k_tokens, {group}).value();
    const std::vector<int64_t> edges = mask.EdgeRows(0, 1000);
    ASSERT_TRUE(std::is_sorted(edges.begin(), edges.end()));
    ASSERT_EQ(std::adjacent_find(edges.begin(), edges.end()), edges.end());
    // Where the number of keys does not go on as in the row before, a row at the change is listed.
    for (int64_t i = 1; i + 1 < q_tokens; ++i) {
      const int64_t before = mask.RowCount(0, i) - mask.RowCount(0, i - 1);
      const int64_t after = mask.RowCount(0, i + 1) - mask.RowCount(0, i);
      if (before == after) continue;
      const bool listed = std::any_of(edges.begin(), edges.end(),
                                      [i](int64_t row) { return row >= i - 1 && row <= i + 1; });
      ASSERT_TRUE(listed) << i;
    }
    ASSERT_EQ(mask.EdgeRows(0, 3).size(), std::min<size_t>(edges.size(), 3));
    for (const int64_t key : mask.EdgeKeys(0, 5)) ASSERT_TRUE(0 <= key && key < k_tokens);
  }
  const Mask window = Mask::Create(100, 100, {{{{0, 100, 0, 100, -8, 1}}, {}}}).value();
  EXPECT_THAT(window.EdgeRows(0, 100), ElementsAre(0, 7, 8, 98, 99));
  EXPECT_THAT(window.EdgeRows(0, 2), ElementsAre(0, 99));
  EXPECT_THAT(window.EdgeRows(0, 0), IsEmpty());
  EXPECT_THAT(window.EdgeKeys(0, 100), ElementsAre(0, 1, 91, 92, 99));
}

TEST(MaskTest, ContentThatDoesNotFitIsRefused) {
  const auto says = [](const absl::StatusOr<Mask>& mask) {
    return mask.ok() ? "ok" : std::string(mask.status().message());
  };
  EXPECT_THAT(says(Mask::Create(-1, 4, {HeadGroup{}})), HasSubstr("-1 x 4 tokens"));
  EXPECT_THAT(says(Mask::Create(4, Mask::kMaxTokens + 1, {HeadGroup{}})), HasSubstr("0..21474"));
  EXPECT_THAT(says(Mask::Create(4, 4, {})), HasSubstr("one group"));
  EXPECT_THAT(says(Mask::Create(4, 4, {{}, {{{0, 4, 0, 4}, {3, 4, 3, 9}}, {}}})),
              HasSubstr("group 1: bands q[0,4) x k[0,4) and q[3,4) x k[3,4) overlap in row 3"));
  EXPECT_THAT(says(Mask::Create(4, 4, {{{}, BlockMap{{0, 2, 4}, {0, 4}, {1}}}})),
              HasSubstr("2 x 1 blocks need as many selected entries, not 1"));
  EXPECT_THAT(says(Mask::Create(4, 4, {{{}, BlockMap{{0, 2, 2, 4}, {0, 4}, {1, 1, 1}}}})),
              HasSubstr("row edges must ascend"));
  EXPECT_THAT(says(Mask::Create(4, 4, {{{}, BlockMap{{0, 4}, {0, 5}, {1}}}})),
              HasSubstr("column edges must run from 0 to 4"));
  EXPECT_THAT(says(Mask::Create(4, 4, {{{}, BlockMap{{}, {}, {}}}})), HasSubstr("row edges"));
  EXPECT_THAT(says(Mask::Create(4, 4, {{{}, BlockMap{{0, 4}, {0, 4}, {2}}}})),
              HasSubstr("must be 0 or 1"));
  EXPECT_THAT(says(Mask::FromSlices(4, 4, std::vector<Slice>{{2, 1, 0, 4}})),
              HasSubstr("ends before it begins"));
  EXPECT_THAT(says(Mask::FromSlices(4, 4, std::vector<Slice>{{0, 1, 0, kHighest}})),
              HasSubstr("out of range"));
}

TEST(MaskTest, BandsBeyondTheTokensAreClipped) {
  const Band wild{kLowest, kHighest, kLowest, kHighest, kLowest, kHighest};
  const Mask mask = Mask::Create(5, 6, {{{wild}, {}}}).value();
  EXPECT_THAT(mask.bands(0), ElementsAre(Band{0, 5, 0, 6, {}, {}}));
  EXPECT_EQ(Mask::Create(5, 6, {{{{0, 9, -3, 9, kHighest, {}}}, {}}})->Area(0), 0);
}

// Case N1: the first 64 of 160 rows see nothing.
TEST(MaskTest, CausalSliceWithFewerKeysThanRowsLeavesTheFirstRowsEmpty) {
  const Mask mask =
      Mask::FromSlices(160, 96, std::vector<Slice>{{0, 160, 0, 96, SliceKind::kCausal}}).value();
  EXPECT_EQ(mask.Area(0), 4656);
  EXPECT_EQ(mask.RowCount(0, 63), 0);
  EXPECT_EQ(mask.RowCount(0, 64), 1);
  EXPECT_EQ(mask.RowCount(0, 159), 96);
}

// Case B1: a last block that is shorter than the others.
TEST(MaskTest, ShortLastBlockCountsItsTokensOnly) {
  BlockMap map;
  for (int64_t edge = 0; edge < 1000; edge += 128) map.row_edges.push_back(edge);
  map.row_edges.push_back(1000);
  map.column_edges = map.row_edges;
  map.selected.assign(64, 0);
  map.selected[7 * 8 + 7] = 1;
  const Mask mask = Mask::Create(1000, 1000, {{{{0, 1000, 0, 1000}}, map}}).value();
  EXPECT_EQ(mask.Area(0, {896, 1000}, {0, 1000}), 10816);
  EXPECT_EQ(mask.RowCount(0, 999), 104);
  EXPECT_EQ(mask.RowCount(0, 895), 0);
}

// Case B2: a block row that selects nothing, and a column that nothing selects.
TEST(MaskTest, BlockRowsAreIndependentAndEachKvHeadHasItsMap) {
  const std::vector<int64_t> edges = {0, 64, 128, 192, 256};
  const BlockMap first{edges, edges, {1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1}};
  const BlockMap second{edges, edges, {1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0}};
  const Band all{0, 256, 0, 256};
  const Mask mask = Mask::Create(256, 256, {{{all}, first}, {{all}, second}}).value();
  EXPECT_EQ(mask.Area(0), 20480);
  EXPECT_EQ(mask.Area(1), 6 * 64 * 64);
  EXPECT_EQ(mask.RowCount(0, 128), 0);
  EXPECT_EQ(mask.ColumnCount(0, 64), 0);
  std::vector<Interval> keys;
  mask.RowKeys(mask.GroupOf(0), 192, &keys);
  EXPECT_THAT(keys, ElementsAre(Interval{128, 256}));
  mask.RowKeys(mask.GroupOf(1), 192, &keys);
  EXPECT_THAT(keys, ElementsAre(Interval{0, 64}));
}

}  // namespace
}  // namespace lcab
