// Token sets, held against lists of tokens.

#include "attention/tokens.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Token of each row, -1 for none, through TokenAt().
std::vector<int64_t> Listed(const TokenSet& set) {
  std::vector<int64_t> tokens;
  for (int64_t row = 0; row < set.rows(); ++row) tokens.push_back(set.TokenAt(row).value_or(-1));
  return tokens;
}

// Some rows with distinct tokens in random order, some without.
std::vector<int64_t> RandomRows(PhiloxStream* random, int64_t most) {
  std::vector<int64_t> tokens(static_cast<size_t>(2 * most));
  std::iota(tokens.begin(), tokens.end(), 0);
  for (size_t i = tokens.size() - 1; i > 0; --i) {
    std::swap(tokens[i], tokens[random->Below(i + 1)]);
  }
  tokens.resize(random->Below(static_cast<uint64_t>(most) + 1));
  // Orders that make runs, progressions and neither.
  switch (random->Below(4)) {
    case 0:
      std::sort(tokens.begin(), tokens.end());
      break;
    case 1:
      std::sort(tokens.begin(), tokens.end(), std::greater<>());
      break;
    case 2:
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(3 * i + 1);
      break;
    default:
      break;
  }
  for (int64_t& token : tokens) {
    if (random->Below(5) == 0) token = -1;
  }
  return tokens;
}

TokenSet FromRows(const std::vector<int64_t>& tokens) {
  std::vector<TokenPiece> pieces;
  for (size_t row = 0; row < tokens.size(); ++row) {
    if (tokens[row] >= 0) pieces.push_back({tokens[row], 1, 1, static_cast<int64_t>(row)});
  }
  return TokenSet::FromPieces(pieces, static_cast<int64_t>(tokens.size())).value();
}

TEST(TokensTest, RangeHoldsItsTokensInOrder) {
  const TokenSet set = TokenSet::Range(5, 9);
  EXPECT_THAT(Listed(set), ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(set.count(), 4);
  EXPECT_THAT(set.Intervals(), ElementsAre(Interval{5, 9}));
}

TEST(TokensTest, StridedSetHoldsEveryStrideThToken) {
  const TokenSet set = TokenSet::Strided(1, 3, 4);
  EXPECT_THAT(Listed(set), ElementsAre(1, 4, 7, 10));
  EXPECT_EQ(set.RowOf(7), 2);
  EXPECT_EQ(set.RowOf(8), std::nullopt);
}

TEST(TokensTest, EmptySetsHaveNoRows) {
  EXPECT_EQ(TokenSet().rows(), 0);
  EXPECT_EQ(TokenSet::Range(3, 3), TokenSet());
  EXPECT_EQ(TokenSet().TokenAt(0), std::nullopt);
  EXPECT_EQ(TokenSet().RowOf(0), std::nullopt);
}

TEST(TokensTest, EqualRowsGiveEqualSetsWhateverTheyWereBuiltFrom) {
  const std::vector<int64_t> strided = {0, 8, 16, 24};
  EXPECT_EQ(TokenSet::FromIndices(strided).value(), TokenSet::Strided(0, 8, 4));
  const std::vector<int64_t> pair = {0, 8};
  EXPECT_EQ(TokenSet::FromIndices(pair).value(), TokenSet::Strided(0, 8, 2));
  EXPECT_EQ(TokenSet::FromPieces({{4, 1, 3, 4}, {0, 1, 4, 0}}, 7).value(), TokenSet::Range(0, 7));
  EXPECT_EQ(TokenSet::Range(0, 3).Concatenate(TokenSet::Range(3, 7)), TokenSet::Range(0, 7));
  // [0, 1, 2, 4, 6]: the run takes 2, so the progression begins at 4.
  EXPECT_EQ(TokenSet::FromPieces({{0, 1, 2, 0}, {2, 2, 3, 2}}, 5).value(),
            TokenSet::FromIndices(std::vector<int64_t>{0, 1, 2, 4, 6}).value());
}

TEST(TokensTest, NeighboursThatContinueEachOtherAreOnePiece) {
  EXPECT_EQ(TokenSet::FromPieces({{0, 1, 5, 0}, {5, 1, 2, 5}, {7, 1, 1, 7}}, 8)->pieces().size(),
            1u);
  EXPECT_EQ(TokenSet::FromIndices(std::vector<int64_t>{0, 1, 2, 10, 11, 12})->pieces().size(), 2u);
}

TEST(TokensTest, RowsInNoPieceHoldNoToken) {
  const TokenSet set = TokenSet::FromPieces({{10, 1, 2, 1}, {0, 1, 1, 5}}, 8).value();
  EXPECT_THAT(Listed(set), ElementsAre(-1, 10, 11, -1, -1, 0, -1, -1));
  EXPECT_EQ(set.count(), 3);
}

TEST(TokensTest, PiecesThatDoNotFitAreRefused) {
  struct Case {
    std::vector<TokenPiece> pieces;
    int64_t rows;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{{0, 1, 4, 0}, {9, 1, 4, 3}}, 8, "row 3 is in two pieces"},
      {{{0, 1, 4, 0}, {3, 1, 4, 4}}, 8, "token 3 is in two pieces"},
      {{{0, 3, 5, 0}, {1, 5, 4, 5}}, 9, "token 6 is in two pieces"},
      {{{0, 6, 5, 0}, {9, 15, 3, 5}}, 8, "token 24 is in two pieces"},
      {{{0, 1, 4, 0}}, 3, "ends at row 4"},
      {{{-1, 1, 4, 0}}, 4, ">= 0"},
      {{{0, 0, 4, 0}}, 4, "stride >= 1"},
      {{{0, 1, -4, 0}}, 4, ">= 0"},
      {{{0, int64_t{1} << 62, 4, 0}}, 4, "2^40"},
      {{{0, int64_t{1} << 39, 4, 0}}, 4, "2^40"},
  };
  for (const Case& c : cases) {
    const auto set = TokenSet::FromPieces(c.pieces, c.rows);
    ASSERT_FALSE(set.ok()) << c.says;
    EXPECT_THAT(std::string(set.status().message()), HasSubstr(c.says));
  }
  EXPECT_FALSE(TokenSet::FromIndices(std::vector<int64_t>{4, 2, 4}).ok());
}

TEST(TokensTest, ProgressionsThatMissEachOtherAreAccepted) {
  // 0, 6, ..., 24 and 10, 25: same residue of gcd 3 would be needed.
  EXPECT_TRUE(TokenSet::FromPieces({{0, 6, 5, 0}, {10, 15, 2, 5}}, 7).ok());
  // 0, 3, ..., 12 and 1, 6 + ...: they would meet at 21 only, beyond both.
  EXPECT_TRUE(TokenSet::FromPieces({{0, 3, 5, 0}, {1, 5, 1, 5}, {11, 5, 1, 6}}, 7).ok());
}

TEST(TokensTest, DistinctnessAgreesWithCounting) {
  PhiloxStream random(1, 0);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenPiece> pieces;
    std::map<int64_t, int> seen;
    int64_t rows = 0;
    bool distinct = true;
    for (uint64_t n = 1 + random.Below(3); n > 0; --n) {
      const auto draw = [&](uint64_t bound) { return static_cast<int64_t>(random.Below(bound)); };
      pieces.push_back({draw(20), 1 + draw(7), draw(6), rows});
      for (int64_t i = 0; i < pieces.back().count; ++i) {
        distinct &= ++seen[pieces.back().first + i * pieces.back().stride] == 1;
      }
      rows += pieces.back().count;
    }
    EXPECT_EQ(TokenSet::FromPieces(pieces, rows).ok(), distinct);
    refused += distinct ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1900);
}

TEST(TokensTest, RowsAndTokensAreInverseOfEachOther) {
  PhiloxStream random(2, 0);
  for (int round = 0; round < 300; ++round) {
    const std::vector<int64_t> rows = RandomRows(&random, 23);
    const TokenSet set = FromRows(rows);
    EXPECT_EQ(Listed(set), rows);
    for (int64_t token = 0; token < 80; ++token) {
      const auto row = std::find(rows.begin(), rows.end(), token);
      EXPECT_EQ(set.RowOf(token),
                row == rows.end() ? std::nullopt : std::optional<int64_t>(row - rows.begin()));
    }
    int64_t held = 0;
    for (const Interval& interval : set.Intervals()) {
      held += interval.size();
      for (int64_t token = interval.begin; token < interval.end; ++token) {
        EXPECT_TRUE(set.RowOf(token).has_value());
      }
    }
    EXPECT_EQ(held, set.count());
  }
}

TEST(TokensTest, CuttingAndJoiningGiveBackTheSet) {
  PhiloxStream random(3, 0);
  for (int round = 0; round < 300; ++round) {
    const TokenSet set = FromRows(RandomRows(&random, 23));
    const auto cut = static_cast<int64_t>(random.Below(static_cast<uint64_t>(set.rows()) + 1));
    const TokenSet head = set.Rows({0, cut});
    const TokenSet tail = set.Rows({cut, set.rows()});
    EXPECT_EQ(head.rows() + tail.rows(), set.rows());
    EXPECT_EQ(head.Concatenate(tail), set);
  }
}

}  // namespace
}  // namespace lcab
