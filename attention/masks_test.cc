#include "attention/masks.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "attention/dense_pairs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Value Integers(const std::vector<int64_t>& values) {
  Value::List list;
  for (const int64_t value : values) list.push_back(Value{value});
  return Value{list};
}

Value Text(std::string text) { return Value{std::move(text)}; }
Value Whole(int64_t value) { return Value{value}; }

Mask Made(std::string_view name, const Options& options, int64_t tokens, uint64_t seed = 1,
          int64_t draw = 0, int64_t kv_heads = 1) {
  const auto mask = MakeMask(name, options, {tokens, tokens, kv_heads, seed, draw});
  EXPECT_TRUE(mask.ok()) << mask.status();
  return mask.value_or(Mask());
}

std::string Says(std::string_view name, const Options& options, int64_t q_tokens,
                 int64_t k_tokens) {
  const auto mask = MakeMask(name, options, {q_tokens, k_tokens, 1, 1, 0});
  return mask.ok() ? "ok" : std::string(mask.status().message());
}

// The document of each token, and its first token, from lengths; -1 beyond them.
struct Packing {
  std::vector<int64_t> document, begin, end;

  Packing(const std::vector<int64_t>& lengths, int64_t tokens)
      : document(static_cast<size_t>(tokens), -1), begin(document), end(document) {
    size_t at = 0;
    for (size_t d = 0; d < lengths.size(); ++d) {
      const auto length = static_cast<size_t>(lengths[d]);
      for (size_t i = at; i < at + length; ++i) {
        document[i] = static_cast<int64_t>(d);
        begin[i] = static_cast<int64_t>(at);
        end[i] = static_cast<int64_t>(at + length);
      }
      at += length;
    }
  }
};

struct Definition {
  std::string name;
  Options options;
  std::function<bool(int64_t i, int64_t j)> allows;
};

// The masks as their definitions read, over S tokens, of which documents cover the first.
std::vector<Definition> Definitions(int64_t tokens, const std::vector<int64_t>& lengths,
                                    int64_t n) {
  const Options documents = {{"lengths", Integers(lengths)}};
  Options documents_and_prefix = documents;
  documents_and_prefix["prefix"] = Whole(std::max<int64_t>(n, 1));
  const Packing p(lengths, tokens);
  const auto at = [](const std::vector<int64_t>& v, int64_t i) {
    return v[static_cast<size_t>(i)];
  };
  const auto same = [=](int64_t i, int64_t j) {
    return at(p.document, i) >= 0 && at(p.document, i) == at(p.document, j);
  };
  int64_t first = -1, last = -1;
  for (int64_t d = 0; d < static_cast<int64_t>(lengths.size()); ++d) {
    if (first < 0) first = d;
    last = d;
  }
  const int64_t prefix = std::clamp<int64_t>(n, 1, tokens);
  return {
      {"full", {}, [](int64_t, int64_t) { return true; }},
      {"causal", {}, [](int64_t i, int64_t j) { return j <= i; }},
      {"sliding_window_causal",
       {{"window", Whole(n)}},
       [=](int64_t i, int64_t j) { return 0 <= i - j && i - j <= n; }},
      {"sliding_window_full",
       {{"window", Whole(n)}},
       [=](int64_t i, int64_t j) { return std::abs(i - j) <= n; }},
      {"prefix_lm_causal",
       {{"prefix", Whole(prefix)}},
       [=](int64_t i, int64_t j) { return j < prefix || j <= i; }},
      {"global_sliding_window",
       {{"window", Whole(prefix)}},
       [=](int64_t i, int64_t j) { return i < prefix || j < prefix || std::abs(i - j) <= prefix; }},
      {"full_document", documents, same},
      {"causal_document", documents, [=](int64_t i, int64_t j) { return same(i, j) && j <= i; }},
      {"share_question", documents,
       [=](int64_t i, int64_t j) {
         return (same(i, j) && j <= i) || (at(p.document, i) > first && at(p.document, j) == first);
       }},
      {"causal_blockwise", documents,
       [=](int64_t i, int64_t j) {
         return (same(i, j) || at(p.document, i) == last) && at(p.document, i) >= 0 && j <= i;
       }},
      {"prefix_lm_document", documents_and_prefix,
       [=](int64_t i, int64_t j) {
         return same(i, j) && (j <= i || j - at(p.begin, j) < std::max<int64_t>(n, 1));
       }},
  };
}

TEST(MasksTest, EveryStaticMaskIsWhatItsDefinitionSays) {
  const std::vector<std::vector<int64_t>> packings = {
      {29}, {7, 1, 11, 10}, {1, 1, 1, 1, 25}, {5, 0, 13, 0, 4}, {28, 1}, {3, 3}};
  for (const std::vector<int64_t>& lengths : packings) {
    for (const int64_t n : {0, 1, 4, 13, 29, 40}) {
      for (const Definition& d : Definitions(29, lengths, n)) {
        const Mask mask = Made(d.name, d.options, 29);
        const DensePairs dense = DensePairs::From(29, 29, d.allows);
        ASSERT_EQ(DensePairs::FromRowKeys(mask, 0), dense) << d.name << " n " << n;
        ASSERT_EQ(mask.Area(0), dense.Count()) << d.name;
      }
    }
  }
}

TEST(MasksTest, BlockCausalDocumentSeesUpToItsOwnBlock) {
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

TEST(MasksTest, DrawnBlockCausalDocumentsHaveOneToEightBlocks) {
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

TEST(MasksTest, DrawnPrefixesAndWindowsStayInTheirRange) {
  int64_t smallest = 1000, largest = 0;
  for (int64_t draw = 0; draw < 300; ++draw) {
    // Row 0 sees the prefix, in the first document as well.
    const int64_t prefix = Made("prefix_lm_causal", {}, 37, 1, draw).RowCount(0, 0);
    ASSERT_TRUE(1 <= prefix && prefix <= 37);
    smallest = std::min(smallest, prefix);
    largest = std::max(largest, prefix);
    const Mask documents =
        Made("prefix_lm_document", {{"lengths", Integers({0, 5, 32})}}, 37, 1, draw);
    ASSERT_LE(documents.RowCount(0, 0), 5);
    ASSERT_EQ(documents.RowCount(0, 5), documents.RowCount(0, 0));
    // Key S - 1 is seen by the global rows and those in its window: w + w + 1 rows.
    const int64_t twice = Made("global_sliding_window", {}, 37, 1, draw).ColumnCount(0, 36);
    ASSERT_TRUE(3 <= twice && twice <= 2 * (37 / 3 - 1) + 1 && twice % 2 == 1);
  }
  EXPECT_EQ(smallest, 1);
  EXPECT_EQ(largest, 37);
}

TEST(MasksTest, RandomMasksFollowSeedAndDrawAndOthersDoNot) {
  for (const MaskType& type : MaskTypes()) {
    Options options;
    if (type.name == "slices") options["slices"] = Value{Value::List{}};
    const uint64_t digest = Made(type.name, options, 6000, 1, 0, 2).Digest();
    EXPECT_EQ(Made(type.name, options, 6000, 1, 0, 2).Digest(), digest) << type.name;
    EXPECT_EQ(Made(type.name, options, 6000, 1, 1, 2).Digest() != digest, type.random) << type.name;
    EXPECT_EQ(Made(type.name, options, 6000, 2, 0, 2).Digest() != digest, type.random) << type.name;
  }
}

TEST(MasksTest, DocumentsAreDrawnAsTheOptionsSay) {
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
  EXPECT_EQ(documents({}, 8000), documents({{"documents", Text("pile")}}, 8000));
  EXPECT_EQ(documents({}, 9000), documents({{"documents", Text("prolong64k")}}, 9000));
  EXPECT_EQ(documents({}, 70000), documents({{"documents", Text("prolong512k")}}, 70000));
  EXPECT_NE(documents({}, 70000), documents({{"documents", Text("pile")}}, 70000));
  // Documents of 100 tokens by a histogram of one's own, 60% of the tokens in uniform ones.
  const Value bin{Value::List{Whole(100), Whole(101), Value{1.0}}};
  const Value histogram{Value::List{bin}};
  EXPECT_EQ(documents({{"histogram", histogram}}, 1000).size(), 10u);
  const auto mixed = documents({{"histogram", histogram}, {"mix", Text("40:60")}}, 100000);
  EXPECT_GT(mixed.size(), 400u);
  EXPECT_LT(mixed.size(), 420u);
  const Value whole{Value::List{Value{Value::List{Whole(100000), Whole(100001), Whole(1)}}}};
  EXPECT_EQ(longest(documents({{"histogram", whole}, {"cap", Text("quarter")}}, 1000), 1000), 250);
}

TEST(MasksTest, BlockSparseMasksKeepTheirShareInEachRowOfBlocks) {
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

TEST(MasksTest, BlockSparseChoicesAreSpreadEvenly) {
  const Mask mask = Made("block_sparse_uniform", {{"block", Whole(1)}, {"keep", Value{0.2}}}, 1000);
  // Each column is kept by 200 of 1000 rows, give or take 5 deviations of sqrt(1000 * 0.2 * 0.8).
  for (int64_t key = 0; key < 1000; ++key) EXPECT_NEAR(mask.ColumnCount(0, key), 200, 64);
}

TEST(MasksTest, VariableBlocksHaveTheirLeastSizeAndAverage) {
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

TEST(MasksTest, QueriesAndKeysMayDifferWhereTheDefinitionAllows) {
  const auto full = MakeMask("full", {}, {7, 11, 1, 0, 0});
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->Area(0), 77);
  const auto sparse = MakeMask("block_sparse_uniform", {{"keep", Value{1.0}}}, {7, 11, 1, 0, 0});
  ASSERT_TRUE(sparse.ok());
  EXPECT_EQ(sparse->Area(0), 77);
  for (const std::string name :
       {"causal", "sliding_window_causal", "sliding_window_full", "prefix_lm_causal",
        "global_sliding_window", "causal_document", "block_causal_document"}) {
    EXPECT_THAT(Says(name, {}, 7, 11), HasSubstr("needs as many queries as keys, not 7 and 11"));
  }
}

TEST(MasksTest, MasksWithoutTokensAreMade) {
  for (const MaskType& type : MaskTypes()) {
    Options options;
    if (type.name == "slices") options["slices"] = Value{Value::List{}};
    if (type.name == "global_sliding_window") options["window"] = Whole(3);
    EXPECT_EQ(Made(type.name, options, 0).Area(0), 0) << type.name;
    EXPECT_GE(Made(type.name, options, 1).Area(0), type.name == "slices" ? 0 : 1) << type.name;
  }
}

// Case S1: documents with queries or keys only.
TEST(MasksTest, DocumentsMayLackQueriesOrKeys) {
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
TEST(MasksTest, OneTokenDocumentsSeeThemselves) {
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

// Case M1: a window is an inclusive distance.
TEST(MasksTest, WindowCountsTheTokensBesideItsOwn) {
  const auto area = [](std::string_view name, int64_t window) {
    return Made(name, {{"window", Whole(window)}}, 4096).Area(0);
  };
  std::vector<Interval> keys;
  Made("sliding_window_causal", {}, 4096).RowKeys(0, 2000, &keys);
  EXPECT_THAT(keys, ElementsAre(Interval{976, 2001}));
  EXPECT_EQ(area("sliding_window_causal", 1024), 3673600);
  EXPECT_EQ(area("sliding_window_full", 1024), 7343104);
  EXPECT_EQ(area("sliding_window_causal", 0), 4096);
  EXPECT_EQ(area("sliding_window_full", 0), 4096);
  EXPECT_EQ(area("sliding_window_causal", 4095), 8390656);
  EXPECT_EQ(Made("sliding_window_causal", {{"window", Whole(4095)}}, 4096),
            Made("causal", {}, 4096));
}

// Case M2: a prefix is a number of tokens.
TEST(MasksTest, PrefixCountsItsTokens) {
  const auto made = [](int64_t prefix) {
    return Made("prefix_lm_causal", {{"prefix", Whole(prefix)}}, 256);
  };
  EXPECT_EQ(made(1), Made("causal", {}, 256));
  EXPECT_EQ(made(1).Area(0), 32896);
  EXPECT_EQ(made(256), Made("full", {}, 256));
  EXPECT_EQ(made(256).Area(0), 65536);
  EXPECT_EQ(made(100).Area(0), 37846);
  EXPECT_EQ(made(100).RowCount(0, 0), 100);
  EXPECT_EQ(made(100).RowCount(0, 99), 100);
  EXPECT_EQ(made(100).RowCount(0, 100), 101);
}

// Case C2: areas of causal documents.
TEST(MasksTest, CausalDocumentsHaveTriangularAreas) {
  EXPECT_EQ(Made("causal_document", {{"lengths", Integers({699, 325})}}, 1024).Area(0), 297625);
}

// Case G2: rows behind the last document are in no slice.
TEST(MasksTest, TokensBehindTheLastDocumentSeeNothing) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{200, 248}, std::vector<int64_t>{31, 417}}) {
    const Mask mask = Made("causal_document", {{"lengths", Integers(lengths)}}, 512);
    EXPECT_EQ(mask.Classify(0, {448, 512}, {0, 512}), TileKind::kEmpty);
    EXPECT_EQ(mask.Classify(0, {0, 512}, {448, 512}), TileKind::kEmpty);
    EXPECT_EQ(mask.RowCount(0, 447), lengths[1]);
  }
}

// Two counts that a released benchmark gets wrong: half of the band, and a narrower global window.
TEST(MasksTest, BothHalvesOfAWindowCount) {
  const int64_t tokens = 4096, window = 512;
  int64_t full = 0, global = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    full += std::min(i + window, tokens - 1) - std::max<int64_t>(i - window, 0) + 1;
    for (int64_t j = 0; j < tokens; ++j) {
      global += i < window || j < window || std::abs(i - j) <= window ? 1 : 0;
    }
  }
  EXPECT_EQ(Made("sliding_window_full", {{"window", Whole(window)}}, tokens).Area(0), full);
  EXPECT_EQ(Made("global_sliding_window", {{"window", Whole(window)}}, tokens).Area(0), global);
}

TEST(MasksTest, SlicesAreTakenAsGiven) {
  const auto slice = [](const std::vector<int64_t>& at, std::string kind) {
    Value value = Integers(at);
    std::get<Value::List>(value.data).push_back(Text(std::move(kind)));
    return value;
  };
  const auto with = [](std::vector<Value> slices) {
    return Options{{"slices", Value{Value::List(slices.begin(), slices.end())}}};
  };
  // Case N1.
  const auto mask =
      MakeMask("slices", with({slice({0, 160, 0, 96}, "causal")}), {160, 96, 1, 0, 0});
  ASSERT_TRUE(mask.ok()) << mask.status();
  EXPECT_EQ(mask->Area(0), 4656);
  EXPECT_EQ(Made("slices",
                 with({slice({0, 4, 0, 8}, "bi_causal"), slice({4, 8, 0, 4}, "inv_causal"),
                       slice({4, 8, 4, 8}, "full")}),
                 8)
                .Area(0),
            4 * 5 + 10 + 16);
  EXPECT_THAT(
      Says("slices", with({slice({0, 4, 0, 8}, "casual")}), 8, 8),
      HasSubstr("'slices' holds [0,4,0,8,casual]; each entry must be [q0, q1, k0, k1, kind]"));
  EXPECT_THAT(Says("slices", with({slice({0, 9, 0, 8}, "full")}), 8, 8),
              HasSubstr("[0,9,0,8,full] reaches beyond the 8 queries and 8 keys"));
  EXPECT_THAT(
      Says("slices", with({slice({0, 4, 0, 8}, "full"), slice({3, 5, 7, 8}, "full")}), 8, 8),
      HasSubstr("overlap in row 3"));
  EXPECT_THAT(Says("slices", with({slice({4, 0, 0, 8}, "full")}), 8, 8),
              HasSubstr("ends before it begins"));
  EXPECT_THAT(Says("slices", with({Whole(3)}), 8, 8), HasSubstr("'slices' holds 3"));
  EXPECT_THAT(Says("slices", {}, 8, 8), HasSubstr("needs its parameter 'slices'"));
}

TEST(MasksTest, WhatDoesNotFitIsRefusedInWords) {
  EXPECT_THAT(Says("casual", {}, 8, 8), HasSubstr("did you mean 'causal'"));
  EXPECT_THAT(Says("causal", {{"window", Whole(1)}}, 8, 8), HasSubstr("takes no parameters"));
  EXPECT_THAT(Says("sliding_window_causal", {{"window", Whole(-1)}}, 8, 8), HasSubstr("-1"));
  EXPECT_THAT(Says("prefix_lm_causal", {{"prefix", Whole(9)}}, 8, 8),
              HasSubstr("prefix 9 is longer than the sequence of 8 tokens"));
  EXPECT_THAT(Says("global_sliding_window", {}, 5, 5), HasSubstr("empty for 5 tokens"));
  const auto says = [](const Options& options) { return Says("causal_document", options, 8, 8); };
  EXPECT_THAT(says({{"lengths", Integers({5, 4})}}), HasSubstr("9 query and 9 key tokens"));
  EXPECT_THAT(says({{"lengths", Integers({5, -1})}}), HasSubstr("'lengths' holds -1"));
  EXPECT_THAT(says({{"lengths", Value{Value::List{Text("a")}}}}), HasSubstr("'lengths' holds a"));
  EXPECT_THAT(says({{"query_lengths", Integers({5})}}), HasSubstr("1 query lengths and 0 key"));
  EXPECT_THAT(says({{"lengths", Integers({5})}, {"query_lengths", Integers({5})}}),
              HasSubstr("either 'lengths' or both"));
  EXPECT_THAT(says({{"lengths", Integers({5})}, {"documents", Text("pile")}}),
              HasSubstr("nothing to draw"));
  EXPECT_THAT(says({{"mix", Text("50:60")}}), HasSubstr("add up to 100"));
  EXPECT_THAT(says({{"mix", Text("40-60")}}), HasSubstr("\"40-60\""));
  EXPECT_THAT(says({{"mix", Text("")}}), HasSubstr("two percentages"));
  EXPECT_THAT(says({{"histogram", Integers({5, 6, 1})}}), HasSubstr("[begin, end, weight]"));
  EXPECT_THAT(says({{"documents", Text("pilr")}}), HasSubstr("did you mean 'pile'"));
  EXPECT_THAT(
      Says("block_causal_document", {{"block", Whole(4)}, {"blocks", Integers({2, 1})}}, 8, 8),
      HasSubstr("document 1 would begin at token 8 of 8"));
  EXPECT_THAT(Says("block_sparse_variable", {{"average_block", Whole(100)}}, 8, 8),
              HasSubstr("'min_block' is 128, more than 'average_block', which is 100"));
  EXPECT_THAT(Says("block_sparse_uniform", {{"block", Whole(1)}}, 1 << 20, 1 << 20),
              HasSubstr("use larger blocks"));
  EXPECT_THAT(Says("full", {}, -1, 4), HasSubstr("-1 tokens"));
  EXPECT_FALSE(MakeMask("full", {}, {4, 4, 0, 0, 0}).ok());
  EXPECT_FALSE(MakeMask("full", {}, {4, 4, 1, 0, -1}).ok());
}

// Work is counted in bands: it must follow them, not pairs. (docs/masks.md has the times.)
TEST(MasksTest, MillionTokensTakeFewBandsAndExactAreas) {
  constexpr int64_t kTokens = 1 << 20;
  const std::vector<int64_t> lengths(32768, 32);
  const Options documents = {{"lengths", Integers(lengths)}};
  EXPECT_EQ(Made("full", {}, kTokens).Area(0), kTokens * kTokens);
  EXPECT_EQ(Made("causal", {}, kTokens).Area(0), kTokens / 2 * (kTokens + 1));
  EXPECT_EQ(Made("full_document", documents, kTokens).Area(0), 32768 * 32 * 32);
  EXPECT_EQ(Made("causal_document", documents, kTokens).Area(0), 32768 * 32 * 33 / 2);
  EXPECT_EQ(Made("share_question", documents, kTokens).Area(0),
            32768 * 32 * 33 / 2 + 32767 * 32 * 32);
  EXPECT_EQ(Made("causal_blockwise", documents, kTokens).Area(0),
            32768 * 32 * 33 / 2 + 32 * (kTokens - 32));
  for (const MaskType& type : MaskTypes()) {
    if (type.name == "slices" || type.name.starts_with("block_sparse")) continue;
    const Mask mask = Made(type.name, {}, kTokens);
    EXPECT_LE(mask.bands(0).size(), 40000u) << type.name;
    EXPECT_GE(mask.Area(0), kTokens) << type.name;
  }
}

std::string DocumentText() {
  std::ifstream file("docs/masks.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(MasksTest, DocumentNamesEveryMaskItsParametersAndTheirDefaults) {
  const std::string text = DocumentText();
  ASSERT_FALSE(text.empty()) << "run from the source root";
  size_t at = 0;
  for (const MaskType& type : MaskTypes()) {
    const std::string row = "\n| `" + type.name + "` | " + type.description + " |";
    const size_t found = text.find(row);
    EXPECT_NE(found, std::string::npos) << row;
    EXPECT_GE(found, at) << type.name << " is out of order";
    at = found;
    for (const Parameter& parameter : type.parameters) {
      const std::string parameter_row =
          "| `" + parameter.name + "` | " +
          (parameter.default_value ? "`" + ValueText(*parameter.default_value) + "`" : "required") +
          " | " + parameter.description + " |";
      EXPECT_THAT(text, HasSubstr(parameter_row)) << type.name;
    }
  }
}

}  // namespace
}  // namespace lcab
