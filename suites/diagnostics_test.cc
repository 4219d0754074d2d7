#include "suites/diagnostics.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace lcab::suites {
namespace {

using std::string_view_literals::operator""sv;

// What is written to a terminal: an escape, one of ISO 6429 in UTF-8, a turn of direction, a byte
// that is no UTF-8. The right side is written out by hand.
constexpr std::string_view kHostile = "a\x1b[2J\xC2\x9B\xE2\x80\xAE\xFFz"sv;
constexpr std::string_view kShown = "a\\x1b[2J\\x9b\\u202e\\xffz"sv;

TEST(DiagnosticsTest, FileNamesAndMessagesCannotWriteOverATerminal) {
  Diagnostics diagnostics(kHostile);
  diagnostics.Add({.line = 3, .column = 7}, kHostile);
  const std::string shown(kShown);
  EXPECT_EQ(std::string(diagnostics.ToStatus().message()), shown + ":3:7: " + shown);
}

TEST(DiagnosticsTest, AQuotedTextStaysAsItIsWithinAMessage) {
  EXPECT_EQ(Quote(kHostile), "'" + std::string(kShown) + "'");
  Diagnostics diagnostics("f.yaml");
  diagnostics.Add({}, Quote(kHostile));
  EXPECT_EQ(std::string(diagnostics.ToStatus().message()), "f.yaml: '" + std::string(kShown) + "'");
}

TEST(DiagnosticsTest, LongTextsAreCutBetweenCharacters) {
  // 59 bytes, then a character of two: only whole ones within 60 are quoted.
  EXPECT_EQ(Quote(std::string(59, 'x') + "\xC3\xA9"), "'" + std::string(59, 'x') + "...'");
  EXPECT_EQ(Quote(std::string(58, 'x') + "\xC3\xA9"), "'" + std::string(58, 'x') + "\xC3\xA9'");
}

}  // namespace
}  // namespace lcab::suites
