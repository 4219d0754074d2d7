#include "suites/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "suites/yaml_tree.h"

namespace lcab::suites {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using std::string_view_literals::operator""sv;

std::string Findings(std::string_view text) {
  Diagnostics diagnostics("f.yaml");
  const bool is_read = ReadYaml(text, diagnostics).has_value();
  EXPECT_EQ(is_read, diagnostics.empty());
  return std::string(diagnostics.ToStatus().message());
}

TEST(YamlText, EveryFormOfUtf8ThatTheStandardForbidsIsRefusedAtItsPlace) {
  // RFC 3629, sections 3 and 4: stray continuation, missing continuation, longer than needed,
  // surrogate, beyond U+10FFFF, and bytes that never occur.
  for (const std::string_view bytes :
       {"\x80"sv, "\xC3("sv, "\xC0\xAF"sv, "\xE0\x80\xAF"sv, "\xED\xA0\x80"sv, "\xF4\x90\x80\x80"sv,
        "\xF0\x8F\xBF\xBF"sv, "\xFF"sv, "\xFE"sv, "\xE2\x82"sv}) {
    const std::string text = "name: a\nx: '" + std::string(bytes);
    EXPECT_THAT(Findings(text), StartsWith("f.yaml:2:5: byte 0x")) << Quote(bytes);
  }
  for (const std::string_view bytes : {"\xC3\xA9"sv, "\xE2\x82\xAC"sv, "\xF4\x8F\xBF\xBF"sv}) {
    EXPECT_EQ(Findings("x: " + std::string(bytes)), "");
  }
}

TEST(YamlText, ControlCharactersAreRefusedWhereverTheyStand) {
  EXPECT_THAT(Findings("name: x\0y\n"sv), HasSubstr("f.yaml:1:8: control character U+0000"));
  EXPECT_THAT(Findings("a: 1\n# \x1b[31m\n"), HasSubstr("f.yaml:2:3: control character U+001B"));
  EXPECT_THAT(Findings("a: \x7f"), HasSubstr("U+007F"));
  EXPECT_THAT(Findings("a: \xC2\x9B"), HasSubstr("U+009B"));
  EXPECT_EQ(Findings("a:\t1\n"), "");
}

TEST(YamlText, TextsOfOtherEncodingsAreRefusedByTheirFirstByte) {
  EXPECT_THAT(Findings("\xFF\xFEn\0a\0"sv), HasSubstr("f.yaml:1:1: byte 0xff is not UTF-8"));
}

TEST(YamlText, AMarkOfUtf8IsNoPartOfTheText) {
  Diagnostics diagnostics("f.yaml");
  const auto tree = ReadYaml("\xEF\xBB\xBFname: 'a'\n", diagnostics);
  ASSERT_TRUE(tree.has_value());
  ASSERT_NE(tree->Find("name"), nullptr);
  EXPECT_EQ(tree->Find("name")->where, (Location{1, 7}));
}

TEST(YamlText, LinesMayEndInCarriageReturnAndLineFeedButNotInOneReturnAlone) {
  Diagnostics diagnostics("f.yaml");
  const auto tree = ReadYaml("name: a\r\nseed: 1\r\n", diagnostics);
  ASSERT_TRUE(tree.has_value());
  EXPECT_EQ(tree->Find("name")->text, "a");
  EXPECT_EQ(tree->Find("seed")->where, (Location{2, 7}));
  EXPECT_THAT(Findings("name: a\rseed: 1\r"), HasSubstr("f.yaml:1:8: a carriage return"));
}

TEST(YamlText, ATabThatIndentsIsCalledSo) {
  const std::string_view says = "indented with a tab; use spaces";
  EXPECT_THAT(Findings("matrices:\n\t- shape: 1\n"), HasSubstr(says));
  EXPECT_THAT(Findings("a:\n  b:\n  \tc: 1\n\t d: 2\n"), HasSubstr(says));
}

TEST(YamlText, AQuoteThatIsNotClosedIsRefusedWhereItOpens) {
  const std::string_view says = "not closed; add the quote";
  EXPECT_THAT(Findings("name: x\ndescription: \"abc\nmatrices: []\n"), HasSubstr(says));
  EXPECT_THAT(Findings("name: x\ndescription: \"abc\n"), StartsWith("f.yaml:2:14: "));
  EXPECT_THAT(Findings("a: 'it''s\nb: 1"), HasSubstr(says));
  EXPECT_THAT(Findings("a: \"x\\\""), HasSubstr(says));
  EXPECT_EQ(Findings("a: 'it''s'"), "");
  EXPECT_EQ(Findings("a: \"x\\\"\""), "");
  EXPECT_EQ(Findings("a: |\n  \"x\n"), "");
}

TEST(YamlText, WhatIsNotYamlIsToldWithWhatToDo) {
  EXPECT_THAT(Findings("a: b: c\n"), HasSubstr("put a value that holds ': ' in quotes"));
  EXPECT_THAT(Findings("a: [1, 2\n"), HasSubstr("add its ']'"));
  EXPECT_THAT(Findings("a: {b, c\n"), HasSubstr("add its '}'"));
  EXPECT_THAT(Findings("a: - b\n"), HasSubstr("on a line of its own"));
  EXPECT_THAT(Findings("a: x\n- b\n"), HasSubstr("check its indentation"));
  EXPECT_THAT(Findings("a: @b\n"), HasSubstr("put the value in quotes"));
  EXPECT_THAT(Findings("a: *b\n"), HasSubstr("needs an anchor"));
  EXPECT_THAT(Findings("a: \"\\q\"\n"), HasSubstr("double the backslash"));
}

TEST(YamlText, AliasesOfALongTextAreRefusedBeforeTheyFillTheMemory) {
  std::string text = "a: &a " + std::string(500'000, 'x') + "\nb: [";
  for (int n = 0; n < 1'000; ++n) text += "*a, ";
  EXPECT_THAT(Findings(text + "]\n"), HasSubstr("more than 8388608 bytes, aliases followed"));
}

TEST(YamlText, TenThousandBracketsAreNestedTooDeepNotABadFile) {
  for (const char bracket : {'[', '{'}) {
    EXPECT_THAT(Findings("a: " + std::string(10'000, bracket)), HasSubstr("nested deeper than 24"));
  }
}

}  // namespace
}  // namespace lcab::suites
