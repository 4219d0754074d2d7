// Bands and their canonical form, held against counting pairs.

#include "attention/bands.h"

#include <algorithm>
#include <utility>

#include "attention/dense_pairs_for_test.h"
#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t Draw(PhiloxStream* random, int64_t low, int64_t high) {
  if (high < low) std::swap(low, high);
  return low + static_cast<int64_t>(random->Below(static_cast<uint64_t>(high - low + 1)));
}

// Mostly with pairs, sometimes reversed or beyond the tokens.
Band RandomBand(PhiloxStream* random, int64_t q_tokens, int64_t k_tokens) {
  Band band{Draw(random, 0, q_tokens),
            Draw(random, 0, q_tokens),
            Draw(random, 0, k_tokens),
            Draw(random, 0, k_tokens),
            {},
            {}};
  if (random->Below(8) != 0) {
    band.q1 = Draw(random, band.q0, q_tokens);
    band.k1 = Draw(random, band.k0, k_tokens);
  }
  if (random->Below(2) == 0) band.lower = Draw(random, band.k0 - band.q1, band.k1 - band.q0);
  if (random->Below(2) == 0) band.upper = Draw(random, band.k0 - band.q1, band.k1 - band.q0 + 1);
  return band;
}

DensePairs Dense(const std::vector<Band>& bands, int64_t q_tokens, int64_t k_tokens) {
  return DensePairs::From(q_tokens, k_tokens, [&](int64_t i, int64_t j) {
    return std::any_of(bands.begin(), bands.end(),
                       [&](const Band& band) { return DensePairs::InBand(band, i, j); });
  });
}

TEST(BandsTest, SliceKindsFollowTheirCorners) {
  const auto keys = [](SliceKind kind, int64_t row) {
    return KeysOf(ToBand({2, 6, 10, 20, kind}), row);
  };
  // Row 3: lo = 10 + (3 - 2) where the top left is tracked, hi = 20 - (5 - 3) where the bottom
  // right is.
  EXPECT_EQ(keys(SliceKind::kFull, 3), (Interval{10, 20}));
  EXPECT_EQ(keys(SliceKind::kCausal, 3), (Interval{10, 18}));
  EXPECT_EQ(keys(SliceKind::kInvCausal, 3), (Interval{11, 20}));
  EXPECT_EQ(keys(SliceKind::kBiCausal, 3), (Interval{11, 18}));
  EXPECT_EQ(keys(SliceKind::kCausal, 5), (Interval{10, 20}));
  EXPECT_TRUE(keys(SliceKind::kFull, 6).empty());
}

TEST(BandsTest, RowsKeysAreaAndTrimAgreeWithCounting) {
  PhiloxStream random(1, 0);
  for (int round = 0; round < 3000; ++round) {
    const int64_t q_tokens = Draw(&random, 1, 11), k_tokens = Draw(&random, 1, 13);
    const Band band = RandomBand(&random, q_tokens, k_tokens);
    const DensePairs dense = Dense({band}, q_tokens, k_tokens);
    ASSERT_EQ(AreaOf(band), dense.Count()) << Text(band);
    for (int64_t i = 0; i < q_tokens; ++i) {
      for (int64_t j = 0; j < k_tokens; ++j) {
        ASSERT_EQ(KeysOf(band, i).Contains(j), dense.At(i, j)) << Text(band);
        ASSERT_EQ(RowsOf(band, j).Contains(i), dense.At(i, j)) << Text(band);
      }
    }
    const Band trimmed = Trim(band);
    ASSERT_EQ(Dense({trimmed}, q_tokens, k_tokens), dense) << Text(band);
    for (int64_t i = trimmed.q0; i < trimmed.q1; ++i) ASSERT_FALSE(KeysOf(trimmed, i).empty());
    for (int64_t j = trimmed.k0; j < trimmed.k1; ++j) ASSERT_FALSE(RowsOf(trimmed, j).empty());
    ASSERT_EQ(Trim(trimmed), trimmed);
  }
}

TEST(BandsTest, ClippedBandHoldsThePairsInside) {
  PhiloxStream random(2, 0);
  for (int round = 0; round < 2000; ++round) {
    const Band band = RandomBand(&random, 9, 11);
    const Interval rows{Draw(&random, -2, 11), Draw(&random, -2, 11)};
    const Interval keys{Draw(&random, -2, 13), Draw(&random, -2, 13)};
    const DensePairs expected = DensePairs::From(9, 11, [&](int64_t i, int64_t j) {
      return DensePairs::InBand(band, i, j) && rows.Contains(i) && keys.Contains(j);
    });
    ASSERT_EQ(Dense({Clip(band, rows, keys)}, 9, 11), expected) << Text(band);
  }
}

TEST(BandsTest, AreaOfTheLargestMaskFits) {
  const int64_t n = int64_t{1} << 31;
  EXPECT_EQ(AreaOf({0, n, 0, n, {}, {}}), int64_t{1} << 62);
  EXPECT_EQ(AreaOf({0, n, 0, n, {}, 1}), (int64_t{1} << 61) + (int64_t{1} << 30));
  EXPECT_EQ(AreaOf({0, n, 0, n, 0, {}}), (int64_t{1} << 61) + (int64_t{1} << 30));
}

TEST(CanonicalBandsTest, StaircaseOfTouchingPartsIsOneBand) {
  // Causal attention over three documents' worth of tokens, cut into full and causal parts.
  const std::vector<Band> parts = {{0, 4, 0, 4, {}, 1},
                                   {4, 6, 0, 4, {}, {}},
                                   {4, 6, 4, 6, {}, 1},
                                   {6, 9, 0, 6, {}, {}},
                                   {6, 9, 6, 9, {}, 1}};
  EXPECT_THAT(Canonical(parts).value(), ElementsAre(Band{0, 9, 0, 9, {}, 1}));
}

TEST(CanonicalBandsTest, PartsThatTouchInOneRowOnlyKeepTheirPairs) {
  const std::vector<Band> parts = {{0, 9, 0, 6, {}, 1}, {2, 9, 6, 20, 3, {}}};
  const std::vector<Band> canonical = Canonical(parts).value();
  EXPECT_EQ(Dense(canonical, 9, 20), Dense(parts, 9, 20));
}

TEST(CanonicalBandsTest, EqualPairsGiveEqualListsHoweverTheyAreCut) {
  PhiloxStream random(3, 0);
  int several = 0;
  for (int round = 0; round < 4000; ++round) {
    const int64_t q_tokens = Draw(&random, 1, 12), k_tokens = Draw(&random, 1, 14);
    // Disjoint bands, by leaving out what overlaps.
    std::vector<Band> bands;
    DensePairs dense(q_tokens, k_tokens);
    for (int n = 0; n < 24; ++n) {
      const Band band = RandomBand(&random, q_tokens, k_tokens);
      std::vector<Band> more = bands;
      more.push_back(band);
      const DensePairs with = Dense(more, q_tokens, k_tokens);
      if (with.Count() != dense.Count() + AreaOf(band)) continue;
      bands = more;
      dense = with;
    }
    const auto canonical = Canonical(bands);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    ASSERT_EQ(Dense(*canonical, q_tokens, k_tokens), dense);
    int64_t area = 0;
    for (const Band& band : *canonical) {
      area += AreaOf(band);
      ASSERT_EQ(Trim(band), band) << Text(band);
    }
    ASSERT_EQ(area, dense.Count());
    ASSERT_TRUE(std::is_sorted(canonical->begin(), canonical->end(), [](auto& a, auto& b) {
      return std::pair(a.q0, a.k0) < std::pair(b.q0, b.k0);
    }));
    // The same pairs, one by one and in another cut.
    std::vector<Band> pairs;
    for (int64_t i = 0; i < q_tokens; ++i) {
      for (int64_t j = 0; j < k_tokens; ++j) {
        if (dense.At(i, j)) pairs.push_back({i, i + 1, j, j + 1, {}, {}});
      }
    }
    ASSERT_EQ(*Canonical(pairs), *canonical);
    std::vector<Band> quarters;
    const int64_t i = Draw(&random, 0, q_tokens), j = Draw(&random, 0, k_tokens);
    for (const Band& band : bands) {
      for (const Interval rows : {Interval{0, i}, Interval{i, q_tokens}}) {
        for (const Interval keys : {Interval{0, j}, Interval{j, k_tokens}}) {
          quarters.push_back(Clip(band, rows, keys));
        }
      }
    }
    ASSERT_EQ(*Canonical(quarters), *canonical);
    several += canonical->size() > 2 ? 1 : 0;
  }
  EXPECT_GT(several, 1000);
}

TEST(CanonicalBandsTest, OverlapIsFoundWhereverItIs) {
  PhiloxStream random(4, 0);
  int overlaps = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<Band> bands;
    int64_t sum = 0;
    for (int n = 0; n < 4; ++n) {
      bands.push_back(RandomBand(&random, 10, 10));
      sum += AreaOf(bands.back());
    }
    const bool disjoint = Dense(bands, 10, 10).Count() == sum;
    const auto canonical = Canonical(bands);
    ASSERT_EQ(canonical.ok(), disjoint);
    if (!disjoint) {
      ++overlaps;
      ASSERT_THAT(std::string(canonical.status().message()), HasSubstr("overlap in row"));
    }
  }
  EXPECT_GT(overlaps, 500);
  EXPECT_LT(overlaps, 3500);
}

}  // namespace
}  // namespace lcab
