#include "proto/visible_text.h"

#include <string>

#include "gtest/gtest.h"

namespace lcab {
namespace {

TEST(VisibleText, WhatATerminalActsUponIsShown) {
  EXPECT_EQ(VisibleText("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(VisibleText("a\rb\nc\td\x7f"), "a\\x0db\\x0ac\\x09d\\x7f");
  EXPECT_EQ(VisibleText(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(VisibleText("\xC2\x9B"
                        "31m"),
            "\\x9b31m");  // CSI of ISO 6429
  EXPECT_EQ(VisibleText("a\xE2\x80\xAE"
                        "b"),
            "a\\u202eb");  // right to left
  EXPECT_EQ(VisibleText("a\xE2\x81\xA6"
                        "b"),
            "a\\u2066b");
}

TEST(VisibleText, WhatIsNoUtf8IsShownByteByByte) {
  for (const auto& [text, visible] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\x9b", "\\x9b"},
           {"\xC3", "\\xc3"},
           {"\xC0\x80", "\\xc0\\x80"},           // longer than it need be
           {"\xED\xA0\x80", "\\xed\\xa0\\x80"},  // half of a pair
           {"\xF4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
           {"\xFF"
            "x",
            "\\xffx"}}) {
    EXPECT_EQ(VisibleText(text), visible);
  }
}

TEST(VisibleText, OtherTextStays) {
  const std::string text = "J\xC3\xBCrgen \\x1b \xE6\xBC\xA2 \xF0\x9F\x98\x80 {}";
  EXPECT_EQ(VisibleText(text), text);
  EXPECT_EQ(VisibleText(""), "");
}

TEST(VisibleText, LinesKeepTheirBreaksAndTabs) {
  EXPECT_EQ(VisibleLines("a\n\tb\r\n\x1b[0m"), "a\n\tb\\x0d\n\\x1b[0m");
}

}  // namespace
}  // namespace lcab
