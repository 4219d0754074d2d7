#include "suites/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace lcab::suites {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What is found in `text`, or empty.
std::string Findings(std::string_view text) {
  Diagnostics diagnostics("f.yaml");
  const std::optional<Tree> tree = ReadYaml(text, diagnostics);
  EXPECT_EQ(tree.has_value(), diagnostics.empty());
  return std::string(diagnostics.ToStatus().message());
}

TEST(YamlTree, PlacesAreCountedFromOne) {
  Diagnostics diagnostics("f.yaml");
  const std::optional<Tree> tree = ReadYaml("name: a\nlist: [x, 'y']\nempty:\n", diagnostics);
  ASSERT_TRUE(tree.has_value());
  ASSERT_EQ(tree->entries.size(), 3U);
  EXPECT_EQ(tree->Find("name")->where, (Location{1, 7}));
  EXPECT_EQ(tree->entries[1].where, (Location{2, 1}));
  const Tree& list = *tree->Find("list");
  ASSERT_EQ(list.list.size(), 2U);
  EXPECT_EQ(list.list[1].where, (Location{2, 11}));
  EXPECT_FALSE(list.list[0].quoted);
  EXPECT_TRUE(list.list[1].quoted);
  EXPECT_EQ(tree->Find("empty")->kind, Tree::Kind::kNull);
  EXPECT_EQ(tree->Find("nothing"), nullptr);
}

TEST(YamlTree, KeysGivenTwiceAreRefusedWithBothPlaces) {
  EXPECT_EQ(Findings("name: a\nseed: 1\nname: b\n"),
            "f.yaml:3:1: key 'name' is given twice; the first is in line 1");
}

TEST(YamlTree, WhatIsNotYamlIsRefusedAtItsPlace) {
  EXPECT_THAT(Findings("name: a\nlist: [1, 2\nseed: 3\n"), StartsWith("f.yaml:"));
  EXPECT_THAT(Findings("a: [1\nb: 2\n"), HasSubstr("not YAML"));
  EXPECT_THAT(Findings("a: *nowhere\n"), HasSubstr("f.yaml:1:4: not YAML"));
  EXPECT_THAT(Findings("\tname: a"), HasSubstr("not YAML"));
}

TEST(YamlTree, EmptyTextsAndSeveralDocumentsAreRefused) {
  EXPECT_THAT(Findings(""), HasSubstr("empty"));
  EXPECT_THAT(Findings("---\na: 1\n---\nb: 2\n"), HasSubstr("second document"));
}

TEST(YamlTree, TagsAndKeysThatAreNotTextsAreRefused) {
  EXPECT_THAT(Findings("a: !!str 1\n"), HasSubstr("tags"));
  EXPECT_THAT(Findings("a: !secret x\n"), HasSubstr("tags"));
  EXPECT_THAT(Findings("? [a, b]\n: 1\n"), HasSubstr("a key must be a text"));
}

TEST(YamlTree, AnchorsAndAliasesAreFollowed) {
  Diagnostics diagnostics("f.yaml");
  const std::optional<Tree> tree = ReadYaml("a: &x {n: 1}\nb: *x\n", diagnostics);
  ASSERT_TRUE(tree.has_value());
  ASSERT_EQ(tree->Find("b")->entries.size(), 1U);
  EXPECT_EQ(tree->Find("b")->Find("n")->text, "1");
}

TEST(YamlTree, AliasesThatMultiplyAreRefusedSoon) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int n = 0; n < 10; ++n) text += (n == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    text += "]\n";
  }
  EXPECT_THAT(Findings(text), HasSubstr("more than 200000 values"));
}

TEST(YamlTree, AnAliasOfWhatHoldsItIsRefused) {
  EXPECT_THAT(Findings("a: &a [*a]\n"), HasSubstr("nested deeper"));
}

TEST(YamlTree, DeepNestingIsRefusedWhateverItsDepth) {
  for (const size_t depth : {30, 1'000, 100'000}) {
    EXPECT_NE(Findings(std::string(depth, '[') + std::string(depth, ']')), "") << depth;
    EXPECT_NE(Findings(std::string(depth, '[')), "") << depth;
    EXPECT_NE(Findings(std::string(depth, '{')), "") << depth;
  }
}

TEST(YamlTree, LongTextsAreRefused) {
  EXPECT_THAT(Findings("a: " + std::string(2U << 20, 'x')), HasSubstr("at most 1048576 bytes"));
}

TEST(YamlTree, NoTextCrashesTheReader) {
  const std::string text =
      "name: q\nmatrices:\n  - shape: {q_heads: [8, 4], 'x': \"y\"}\n    mask: &m [a, {name: b}]\n"
      "    kernel: *m\n  # comment\n  - |\n    block\n";
  for (size_t i = 0; i < text.size(); ++i) {
    Findings(text.substr(0, i));
    for (const char c : {'\0', '[', '{', '&', '*', '!', '"', '\'', '\n', ':', '\xff', '%', '|'}) {
      std::string changed = text;
      changed[i] = c;
      Findings(changed);
    }
  }
}

}  // namespace
}  // namespace lcab::suites
