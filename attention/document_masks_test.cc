// Masks over packed documents.

#include <algorithm>
#include <vector>

#include "attention/dense_pairs_for_test.h"
#include "attention/made_masks_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DocumentMasksTest, BlockCausalDocumentSeesUpToItsOwnBlock) {
  // Documents of 2, 1 and 3 blocks of 4 tokens, cut at 21.
  const Mask mask =
      Made("block_causal_document", {{"block", Whole(4)}, {"blocks", Integers({2, 1, 3})}}, 21);
  const std::vector<int64_t> begins = {0, 8, 12, 21};
  const DensePairs expected = DensePairs::From(21, 21, [&](int64_t i, int64_t j) {
    for (size_t d = 0; d + 1 < begins.size(); ++d) {
      const Interval document{begins[d], begins[d + 1]};
      if (!document.Contains(i) || !document.Contains(j)) continue;
      return (j - document.begin) / 4 <= (i - document.begin) / 4;
    }
    return false;
  });
  EXPECT_EQ(DensePairs::FromRowKeys(mask, 0), expected);
}

TEST(DocumentMasksTest, DrawnBlockCausalDocumentsHaveOneToEightBlocks) {
  const Mask mask = Made("block_causal_document", {{"block", Whole(16)}}, 100000);
  // A document begins where the first key of the row jumps; its rows end where it ends.
  std::vector<Interval> keys;
  int64_t begin = -1, row = 0;
  std::vector<int64_t> seen(9, 0);
  while (row < 100000) {
    mask.RowKeys(0, row, &keys);
    ASSERT_EQ(keys.size(), 1u);
    if (keys[0].begin != begin && begin >= 0) {
      ASSERT_EQ((row - begin) % 16, 0);
      ++seen.at(static_cast<size_t>((row - begin) / 16));
    }
    begin = keys[0].begin;
    ASSERT_EQ(keys[0].end, std::min<int64_t>(row + 16, 100000));
    row = keys[0].end;
  }
  EXPECT_EQ(seen[0], 0);
  for (size_t blocks = 1; blocks <= 8; ++blocks) EXPECT_GT(seen[blocks], 100) << blocks;
}

TEST(DocumentMasksTest, DocumentsAreDrawnAsTheOptionsSay) {
  const auto documents = [](const Options& options, int64_t tokens) {
    // In causal documents a row sees itself only where one begins.
    const Mask mask = Made("causal_document", options, tokens);
    std::vector<int64_t> begins;
    for (int64_t row = 0; row < tokens; ++row) {
      if (mask.RowCount(0, row) == 1) begins.push_back(row);
    }
    return begins;
  };
  const auto longest = [](std::vector<int64_t> begins, int64_t tokens) {
    begins.push_back(tokens);
    int64_t length = 0;
    for (size_t d = 1; d < begins.size(); ++d) length = std::max(length, begins[d] - begins[d - 1]);
    return length;
  };
  EXPECT_EQ(documents({}, 8000), documents({{"documents", Word("pile")}}, 8000));
  EXPECT_EQ(documents({}, 9000), documents({{"documents", Word("prolong64k")}}, 9000));
  EXPECT_EQ(documents({}, 70000), documents({{"documents", Word("prolong512k")}}, 70000));
  EXPECT_NE(documents({}, 70000), documents({{"documents", Word("pile")}}, 70000));
  // Documents of 100 tokens by a histogram of one's own, 60% of the tokens in uniform ones.
  const Value bin{Value::List{Whole(100), Whole(101), Value{1.0}}};
  const Value histogram{Value::List{bin}};
  EXPECT_EQ(documents({{"histogram", histogram}}, 1000).size(), 10u);
  const auto mixed = documents({{"histogram", histogram}, {"mix", Word("40:60")}}, 100000);
  EXPECT_GT(mixed.size(), 400u);
  EXPECT_LT(mixed.size(), 420u);
  const Value whole{Value::List{Value{Value::List{Whole(100000), Whole(100001), Whole(1)}}}};
  EXPECT_EQ(longest(documents({{"histogram", whole}, {"cap", Word("quarter")}}, 1000), 1000), 250);
}

// Case S1: documents with queries or keys only.
TEST(DocumentMasksTest, DocumentsMayLackQueriesOrKeys) {
  const Options lengths = {{"query_lengths", Integers({0, 300, 77, 0})},
                           {"key_lengths", Integers({130, 300, 0, 64})}};
  const auto mask = MakeMask("full_document", lengths, {377, 494, 1, 0, 0});
  ASSERT_TRUE(mask.ok()) << mask.status();
  EXPECT_EQ(mask->Area(0), 90000);
  EXPECT_EQ(mask->Area(0, {0, 300}, {130, 430}), 90000);
  // A last row of 300 sees all 300 keys, one of 5 in 300 rows the last 5 rows see something.
  const auto causal = MakeMask("causal_document",
                               {{"query_lengths", Integers({300})}, {"key_lengths", Integers({5})}},
                               {300, 5, 1, 0, 0});
  ASSERT_TRUE(causal.ok());
  EXPECT_EQ(causal->RowCount(0, 294), 0);
  EXPECT_EQ(causal->RowCount(0, 299), 5);
}

// Case S2: many documents of one token before a longer one.
TEST(DocumentMasksTest, OneTokenDocumentsSeeThemselves) {
  std::vector<int64_t> lengths(37, 1);
  lengths.push_back(219);
  const Mask mask = Made("causal_document", {{"lengths", Integers(lengths)}}, 256);
  EXPECT_EQ(mask.Area(0), 24127);
  std::vector<Interval> keys;
  for (int64_t row = 0; row < 37; ++row) {
    mask.RowKeys(0, row, &keys);
    EXPECT_THAT(keys, ElementsAre(Interval{row, row + 1}));
  }
}

// Case C2: areas of causal documents.
TEST(DocumentMasksTest, CausalDocumentsHaveTriangularAreas) {
  EXPECT_EQ(Made("causal_document", {{"lengths", Integers({699, 325})}}, 1024).Area(0), 297625);
}

// Case G2: rows behind the last document are in no slice.
TEST(DocumentMasksTest, TokensBehindTheLastDocumentSeeNothing) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{200, 248}, std::vector<int64_t>{31, 417}}) {
    const Mask mask = Made("causal_document", {{"lengths", Integers(lengths)}}, 512);
    EXPECT_EQ(mask.Classify(0, {448, 512}, {0, 512}), TileKind::kEmpty);
    EXPECT_EQ(mask.Classify(0, {0, 512}, {448, 512}), TileKind::kEmpty);
    EXPECT_EQ(mask.RowCount(0, 447), lengths[1]);
  }
}

TEST(DocumentMasksTest, LengthsThatDoNotFitAreRefusedInWords) {
  const auto says = [](const Options& options) {
    return Refusal("causal_document", options, 8, 8);
  };
  EXPECT_THAT(says({{"lengths", Integers({5, 4})}}), HasSubstr("9 query and 9 key tokens"));
  EXPECT_THAT(says({{"lengths", Integers({5, -1})}}), HasSubstr("'lengths' holds -1"));
  EXPECT_THAT(says({{"lengths", Value{Value::List{Word("a")}}}}), HasSubstr("'lengths' holds a"));
  EXPECT_THAT(says({{"query_lengths", Integers({5})}}), HasSubstr("1 query lengths and 0 key"));
  EXPECT_THAT(says({{"lengths", Integers({5})}, {"query_lengths", Integers({5})}}),
              HasSubstr("either 'lengths' or both"));
  EXPECT_THAT(says({{"lengths", Integers({5})}, {"documents", Word("pile")}}),
              HasSubstr("nothing to draw"));
  EXPECT_THAT(says({{"mix", Word("50:60")}}), HasSubstr("add up to 100"));
  EXPECT_THAT(says({{"mix", Word("40-60")}}), HasSubstr("\"40-60\""));
  for (const char* mix : {"101:-1", "-1:101", "9223372036854775807:1", "40:60 "}) {
    EXPECT_THAT(says({{"mix", Word(mix)}}), HasSubstr("add up to 100")) << mix;
  }
  const Value histogram{Value::List{Value{Value::List{Whole(5), Whole(6), Whole(1)}}}};
  EXPECT_THAT(says({{"documents", Word("pile")}, {"histogram", histogram}}),
              HasSubstr("'documents' or from 'histogram'"));
  EXPECT_THAT(says({{"mix", Word("")}}), HasSubstr("two percentages"));
  EXPECT_THAT(says({{"histogram", Integers({5, 6, 1})}}), HasSubstr("[begin, end, weight]"));
  EXPECT_THAT(says({{"documents", Word("pilr")}}), HasSubstr("did you mean 'pile'"));
  EXPECT_THAT(
      Refusal("block_causal_document", {{"block", Whole(4)}, {"blocks", Integers({2, 1})}}, 8, 8),
      HasSubstr("document 1 would begin at token 8 of 8"));
}

}  // namespace
}  // namespace lcab
