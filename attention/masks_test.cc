// The named masks, held against their definitions and against docs/masks.md.

#include "attention/masks.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "attention/dense_pairs_for_test.h"
#include "attention/made_masks_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
    EXPECT_THAT(Refusal(name, {}, 7, 11), HasSubstr("needs as many queries as keys, not 7 and 11"));
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

// Case S3: the area of a window over more tokens than 2^31 elements of 64 heads of 128 leave room
// for.
TEST(MasksTest, LongWindowHasTheAreaOfItsRowsInFull) {
  EXPECT_EQ(Made("sliding_window_causal", {}, 270336).Area(0), 276569600);
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

TEST(MasksTest, WhatDoesNotFitIsRefusedInWords) {
  EXPECT_THAT(Refusal("casual", {}, 8, 8), HasSubstr("did you mean 'causal'"));
  EXPECT_THAT(Refusal("causal", {{"window", Whole(1)}}, 8, 8), HasSubstr("takes no parameters"));
  EXPECT_THAT(Refusal("sliding_window_causal", {{"window", Whole(-1)}}, 8, 8), HasSubstr("-1"));
  EXPECT_THAT(Refusal("prefix_lm_causal", {{"prefix", Whole(9)}}, 8, 8),
              HasSubstr("prefix 9 is longer than the sequence of 8 tokens"));
  EXPECT_THAT(Refusal("global_sliding_window", {}, 5, 5), HasSubstr("empty for 5 tokens"));
  EXPECT_THAT(Refusal("full", {}, -1, 4), HasSubstr("-1 tokens"));
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
