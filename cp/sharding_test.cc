#include "cp/sharding.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "attention/masks.h"
#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> TokensOf(const TokenSet& shard) {
  std::vector<int64_t> tokens;
  for (int64_t row = 0; row < shard.rows(); ++row) tokens.push_back(*shard.TokenAt(row));
  return tokens;
}

// Every token on one rank, floor(N / P) or one more each, the first N mod P ranks having more.
void ExpectShares(const std::vector<TokenSet>& shards, int64_t tokens, int ranks) {
  ASSERT_EQ(shards.size(), static_cast<size_t>(ranks));
  std::vector<int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> own = TokensOf(shards[static_cast<size_t>(rank)]);
    EXPECT_EQ(static_cast<int64_t>(own.size()), tokens / ranks + (rank < tokens % ranks ? 1 : 0));
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> right(static_cast<size_t>(tokens));
  std::iota(right.begin(), right.end(), 0);
  EXPECT_EQ(all, right);
}

TEST(ShardContiguous, GivesEachRankOneRangeInOrder) {
  const std::vector<TokenSet> shards = ShardContiguous(10, 4);
  EXPECT_THAT(TokensOf(shards[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(TokensOf(shards[1]), ElementsAre(3, 4, 5));
  EXPECT_THAT(TokensOf(shards[2]), ElementsAre(6, 7));
  EXPECT_THAT(TokensOf(shards[3]), ElementsAre(8, 9));
}

TEST(ShardZigzag, GivesRankRTheChunksRAndTwoPMinusOneMinusR) {
  const std::vector<int64_t> lengths = {12};
  const std::vector<TokenSet> shards = ShardZigzag(lengths, 3);
  EXPECT_THAT(TokensOf(shards[0]), ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(TokensOf(shards[1]), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(TokensOf(shards[2]), ElementsAre(4, 5, 6, 7));
}

TEST(ShardZigzag, BalancesACausalMaskExactlyWhereTwoPDividesTheLength) {
  const Mask causal =
      Mask::FromSlices(24, 24, std::vector<Slice>{{0, 24, 0, 24, SliceKind::kCausal}}).value();
  const std::vector<int64_t> lengths = {24};
  for (const TokenSet& q : ShardZigzag(lengths, 4)) {
    EXPECT_EQ(causal.Restrict(q, TokenSet::Range(0, 24), {0, 1}).Area(0), 24 * 25 / 2 / 4);
  }
}

TEST(ShardZigzag, SharesAnyDocumentsAsEvenlyAsOneSequence) {
  PhiloxStream random(1, 1);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 1 + static_cast<int>(random.Below(9));
    std::vector<int64_t> lengths(random.Below(12));
    for (int64_t& length : lengths) length = static_cast<int64_t>(random.Below(trial % 2 ? 4 : 40));
    const int64_t tokens = std::reduce(lengths.begin(), lengths.end());
    ExpectShares(ShardZigzag(lengths, ranks), tokens, ranks);
    ExpectShares(ShardContiguous(tokens, ranks), tokens, ranks);
  }
}

TEST(ShardZigzag, AThousandTinyDocumentsLeaveNoRankBehind) {
  const std::vector<int64_t> lengths(1000, 5);
  for (const TokenSet& shard : ShardZigzag(lengths, 8)) EXPECT_EQ(shard.rows(), 625);
}

TEST(FindDocuments, FindsTheLengthsOfADocumentMask) {
  const Options options = {
      {"lengths", Value{Value::List{Value{int64_t{7}}, Value{int64_t{1}}, Value{int64_t{12}}}}}};
  for (const char* name : {"full_document", "causal_document"}) {
    const Mask mask = MakeMask(name, options, {.q_tokens = 20, .k_tokens = 20}).value();
    EXPECT_THAT(FindDocuments(mask).q_lengths, ElementsAre(7, 1, 12)) << name;
    EXPECT_THAT(FindDocuments(mask).k_lengths, ElementsAre(7, 1, 12)) << name;
  }
  // Every later document sees the first.
  const Mask shared = MakeMask("share_question", options, {.q_tokens = 20, .k_tokens = 20}).value();
  EXPECT_THAT(FindDocuments(shared).q_lengths, ElementsAre(20));
}

TEST(FindDocuments, QueriesAndKeysHaveLengthsOfTheirOwn) {
  const Mask mask = Mask::FromSlices(10, 30,
                                     std::vector<Slice>{{0, 4, 0, 9, SliceKind::kFull},
                                                        {5, 10, 20, 30, SliceKind::kFull}})
                        .value();
  // Tokens of no pair join the document before them.
  EXPECT_THAT(FindDocuments(mask).q_lengths, ElementsAre(5, 5));
  EXPECT_THAT(FindDocuments(mask).k_lengths, ElementsAre(20, 10));
}

TEST(FindDocuments, PairsThatCrossKeepTokensTogether) {
  // The second half of the queries sees the first half of the keys, and the other way round.
  const Mask crossed =
      Mask::FromSlices(
          8, 8, std::vector<Slice>{{0, 4, 4, 8, SliceKind::kFull}, {4, 8, 0, 4, SliceKind::kFull}})
          .value();
  EXPECT_THAT(FindDocuments(crossed).q_lengths, ElementsAre(8));
  const Mask empty = Mask::FromSlices(5, 6, {}).value();
  EXPECT_THAT(FindDocuments(empty).q_lengths, ElementsAre(5));
  EXPECT_THAT(FindDocuments(empty).k_lengths, ElementsAre(6));
}

// No pair crosses a cut, and no document could be cut further.
TEST(FindDocuments, CutsAreRightAndTheFinestForRandomMasks) {
  PhiloxStream random(2, 2);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Slice> slices;
    constexpr SliceKind kKinds[] = {SliceKind::kFull, SliceKind::kCausal, SliceKind::kInvCausal,
                                    SliceKind::kBiCausal};
    int64_t q = 0;
    while (q < 20) {
      const int64_t q1 = std::min<int64_t>(20, q + 1 + static_cast<int64_t>(random.Below(6)));
      const auto k0 = static_cast<int64_t>(random.Below(20));
      slices.push_back({q, q1, k0,
                        std::min<int64_t>(20, k0 + 1 + static_cast<int64_t>(random.Below(5))),
                        kKinds[random.Below(4)]});
      q = q1;
    }
    const Mask mask = Mask::FromSlices(20, 20, slices).value();
    const Documents documents = FindDocuments(mask);
    EXPECT_EQ(std::reduce(documents.q_lengths.begin(), documents.q_lengths.end()), 20);
    EXPECT_EQ(std::reduce(documents.k_lengths.begin(), documents.k_lengths.end()), 20);
    // A cut before query i and key j is good when all pairs are in the two quadrants it leaves.
    size_t cuts = 0;
    int64_t last_q = 0;
    for (int64_t i = 1; i < 20; ++i) {
      bool good = false;
      for (int64_t j = 0; j <= 20 && !good; ++j) {
        const int64_t inside = mask.Area(0, {0, i}, {0, j}) + mask.Area(0, {i, 20}, {j, 20});
        // Each side must hold a pair, and rows of no pair belong to the side before them.
        good = inside == mask.Area(0) && mask.Area(0, {last_q, i}, {0, 20}) > 0 &&
               mask.RowCount(0, i) > 0;
      }
      if (!good) continue;
      ++cuts;
      last_q = i;
    }
    EXPECT_EQ(documents.q_lengths.size(), cuts + 1);
  }
}

}  // namespace
}  // namespace lcab::cp
