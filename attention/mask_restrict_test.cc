// What ranks see of masks, held against looking up every pair of tokens.

#include <algorithm>
#include <numeric>

#include "attention/dense_pairs_for_test.h"
#include "attention/mask.h"
#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;

int64_t Draw(PhiloxStream* random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random->Below(static_cast<uint64_t>(high - low + 1)));
}

// Ranges, progressions, scattered tokens and rows without a token, in random order.
TokenSet RandomTokens(PhiloxStream* random, int64_t tokens) {
  std::vector<char> taken(static_cast<size_t>(tokens), 0);
  std::vector<TokenPiece> pieces;
  int64_t row = 0;
  for (int n = 0; n < 5; ++n) {
    row += Draw(random, 0, 2) == 0 ? Draw(random, 0, 3) : 0;
    TokenPiece piece{Draw(random, 0, tokens - 1), Draw(random, 1, 4), 0, row};
    if (n > 0 && random->Below(2) == 0) piece.stride = pieces.empty() ? 1 : pieces[0].stride;
    const int64_t most = Draw(random, 1, 8);
    for (int64_t token = piece.first;
         token < tokens && piece.count < most && taken[static_cast<size_t>(token)] == 0;
         token += piece.stride) {
      taken[static_cast<size_t>(token)] = 1;
      ++piece.count;
    }
    row += piece.count;
    if (piece.count > 0) pieces.push_back(piece);
  }
  return TokenSet::FromPieces(pieces, row + Draw(random, 0, 2)).value();
}

DensePairs Seen(const Mask& mask, int64_t group, const TokenSet& q, const TokenSet& k) {
  return DensePairs::From(q.rows(), k.rows(), [&](int64_t row, int64_t key) {
    const auto i = q.TokenAt(row), j = k.TokenAt(key);
    return i && j && mask.Allows(group, *i, *j);
  });
}

std::vector<HeadGroup> TwoGroups(PhiloxStream* random, int64_t q_tokens, int64_t k_tokens) {
  std::vector<HeadGroup> groups(2);
  for (HeadGroup& group : groups) {
    // A band, and what is left of and right of it in part: disjoint by construction.
    const int64_t lower = Draw(random, -q_tokens, k_tokens);
    const int64_t upper = lower + Draw(random, 0, k_tokens);
    const int64_t cut = Draw(random, 0, q_tokens);
    group.bands = {{0, q_tokens, 0, k_tokens, lower, upper}};
    if (random->Below(2) == 0) group.bands.push_back({0, cut, 0, k_tokens, upper + 1, {}});
    if (random->Below(2) == 0) group.bands.push_back({cut, q_tokens, 1, k_tokens, {}, lower});
    if (random->Below(2) == 0) {
      BlockMap map{{0}, {0}, {}};
      while (map.row_edges.back() < q_tokens) {
        map.row_edges.push_back(std::min(q_tokens, map.row_edges.back() + Draw(random, 1, 7)));
      }
      while (map.column_edges.back() < k_tokens) {
        map.column_edges.push_back(
            std::min(k_tokens, map.column_edges.back() + Draw(random, 1, 7)));
      }
      for (int64_t n = map.rows() * map.columns(); n > 0; --n) {
        map.selected.push_back(random->Below(3) == 0 ? 0 : 1);
      }
      group.block_map = map;
    }
  }
  return groups;
}

TEST(MaskRestrictTest, LocalPairsAreTheAllowedPairsOfTheirTokens) {
  PhiloxStream random(1, 0);
  int64_t pairs = 0;
  for (int round = 0; round < 1500; ++round) {
    const int64_t q_tokens = Draw(&random, 1, 29), k_tokens = Draw(&random, 1, 31);
    const Mask mask =
        Mask::Create(q_tokens, k_tokens, TwoGroups(&random, q_tokens, k_tokens)).value();
    const TokenSet q = RandomTokens(&random, q_tokens), k = RandomTokens(&random, k_tokens);
    const Mask local = mask.Restrict(q, k, {0, 2});
    ASSERT_EQ(local.q_tokens(), q.rows());
    ASSERT_EQ(local.k_tokens(), k.rows());
    ASSERT_EQ(local.groups(), 2);
    for (int64_t g = 0; g < 2; ++g) {
      const DensePairs expected = Seen(mask, g, q, k);
      ASSERT_EQ(DensePairs::FromRowKeys(local, g), expected);
      ASSERT_EQ(local.Area(g), expected.Count());
      pairs += expected.Count();
      // One head alone is that head's group.
      const Mask alone = mask.Restrict(q, k, {g, g + 1});
      ASSERT_EQ(alone.groups(), 1);
      ASSERT_EQ(DensePairs::FromRowKeys(alone, 0), expected);
    }
  }
  EXPECT_GT(pairs, 50000);
}

TEST(MaskRestrictTest, RestrictingToAllTokensChangesNothing) {
  PhiloxStream random(2, 0);
  for (int round = 0; round < 100; ++round) {
    const int64_t q_tokens = Draw(&random, 1, 29), k_tokens = Draw(&random, 1, 31);
    const Mask mask =
        Mask::Create(q_tokens, k_tokens, TwoGroups(&random, q_tokens, k_tokens)).value();
    const Mask same =
        mask.Restrict(TokenSet::Range(0, q_tokens), TokenSet::Range(0, k_tokens), {0, 2});
    ASSERT_EQ(same, mask);
    ASSERT_EQ(same.Digest(), mask.Digest());
  }
}

TEST(MaskRestrictTest, StripedCausalRankSeesOneBand) {
  constexpr int64_t kRanks = 8, kTokens = 4096;
  const Mask mask =
      Mask::Create(kTokens, kTokens, {{{{0, kTokens, 0, kTokens, {}, 1}}, {}}}).value();
  for (int64_t q_rank = 0; q_rank < kRanks; ++q_rank) {
    for (int64_t k_rank = 0; k_rank < kRanks; ++k_rank) {
      const int64_t count = kTokens / kRanks;
      const Mask local = mask.Restrict(TokenSet::Strided(q_rank, kRanks, count),
                                       TokenSet::Strided(k_rank, kRanks, count), {0, 1});
      // Key c of row r: k_rank + 8 c <= q_rank + 8 r, so c <= r, or c < r where k_rank > q_rank.
      const int64_t below_diagonal = count * (count - 1) / 2;
      EXPECT_EQ(local.Area(0), below_diagonal + (k_rank <= q_rank ? count : 0));
      EXPECT_EQ(local.bands(0).size(), 1u);
    }
  }
}

// One rank's share under zigzag in each document: chunks r and 2P - 1 - r of it.
TokenSet ZigzagInDocuments(int64_t documents, int64_t chunk, int64_t ranks, int64_t rank) {
  std::vector<TokenPiece> pieces;
  int64_t row = 0;
  for (int64_t d = 0; d < documents; ++d) {
    for (const int64_t c : {rank, 2 * ranks - 1 - rank}) {
      pieces.push_back({(d * 2 * ranks + c) * chunk, 1, chunk, row});
      row += chunk;
    }
  }
  return TokenSet::FromPieces(pieces, row).value();
}

TEST(MaskRestrictTest, ZigzagInEachOfManyDocumentsStaysOneBandADocument) {
  constexpr int64_t kDocuments = 400, kChunk = 5, kRanks = 4;
  constexpr int64_t kLength = 2 * kRanks * kChunk, kTokens = kDocuments * kLength;
  const Mask causal =
      Mask::Create(kTokens, kTokens, {{{{0, kTokens, 0, kTokens, {}, 1}}, {}}}).value();
  HeadGroup group;
  for (int64_t d = 0; d < kDocuments; ++d) {
    const int64_t begin = d * kLength, end = begin + kLength;
    group.bands.push_back({begin, end, begin, end, {}, 1});
  }
  const Mask documents = Mask::Create(kTokens, kTokens, {group}).value();
  int64_t causal_area = 0, documents_area = 0;
  for (int64_t q_rank = 0; q_rank < kRanks; ++q_rank) {
    const TokenSet q = ZigzagInDocuments(kDocuments, kChunk, kRanks, q_rank);
    for (int64_t k_rank = 0; k_rank < kRanks; ++k_rank) {
      const TokenSet k = ZigzagInDocuments(kDocuments, kChunk, kRanks, k_rank);
      for (const Mask* mask : {&causal, &documents}) {
        const Mask local = mask->Restrict(q, k, {0, 1});
        // Of its own keys a rank sees a causal part; of another's, steps: one or two a document.
        EXPECT_LE(local.bands(0).size(), static_cast<size_t>(kDocuments + 1));
        (mask == &causal ? causal_area : documents_area) += local.Area(0);
      }
    }
    EXPECT_EQ(causal.Restrict(q, q, {0, 1}).bands(0).size(), 1u);
    EXPECT_EQ(documents.Restrict(q, q, {0, 1}).bands(0).size(), static_cast<size_t>(kDocuments));
  }
  EXPECT_EQ(causal_area, causal.Area(0));
  EXPECT_EQ(documents_area, documents.Area(0));
}

TEST(MaskRestrictTest, StripedQueriesAgainstKeysInNaturalOrderAreExact) {
  const Mask mask = Mask::Create(64, 64, {{{{0, 64, 0, 64, -9, 3}}, {}}}).value();
  const TokenSet q = TokenSet::Strided(1, 8, 8), k = TokenSet::Range(0, 64);
  EXPECT_EQ(DensePairs::FromRowKeys(mask.Restrict(q, k, {0, 1}), 0), Seen(mask, 0, q, k));
  EXPECT_EQ(DensePairs::FromRowKeys(mask.Restrict(k, q, {0, 1}), 0), Seen(mask, 0, k, q));
}

// Case C3: areas of four contiguous ranks of a mask that leaves half of the rows empty.
TEST(MaskRestrictTest, RankWithoutAllowedPairsHasAreaZero) {
  const Mask mask =
      Mask::FromSlices(1024, 1024, std::vector<Slice>{{0, 512, 0, 512, SliceKind::kCausal}})
          .value();
  std::vector<int64_t> areas;
  for (int64_t rank = 0; rank < 4; ++rank) {
    areas.push_back(mask.Restrict(TokenSet::Range(256 * rank, 256 * rank + 256),
                                  TokenSet::Range(0, 1024), {0, 1})
                        .Area(0));
  }
  EXPECT_THAT(areas, ElementsAre(32896, 98432, 0, 0));
}

TEST(MaskRestrictTest, BlockMapUnderStridingHasBlocksOfTheShare) {
  BlockMap map;
  for (int64_t edge = 0; edge <= 512; edge += 64) map.row_edges.push_back(edge);
  map.column_edges = map.row_edges;
  for (int64_t n = 0; n < 64; ++n) map.selected.push_back(n % 3 == 0 ? 1 : 0);
  const Mask mask = Mask::Create(512, 512, {{{{0, 512, 0, 512}}, map}}).value();
  const Mask local =
      mask.Restrict(TokenSet::Strided(3, 8, 64), TokenSet::Strided(0, 8, 64), {0, 1});
  ASSERT_NE(local.block_map(0), nullptr);
  EXPECT_THAT(local.block_map(0)->row_edges, ElementsAre(0, 8, 16, 24, 32, 40, 48, 56, 64));
  EXPECT_EQ(local.Area(0), mask.Area(0) / 64);
}

}  // namespace
}  // namespace lcab
