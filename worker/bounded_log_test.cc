#include "worker/bounded_log.h"

#include <string>

#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

TEST(BoundedLog, ShortTextPassesAtOnceAndWhole) {
  BoundedLog log(100, 50);
  EXPECT_EQ(log.Append("hello\n"), "hello\n");
  EXPECT_EQ(log.Append("world\n"), "world\n");
  EXPECT_EQ(log.Flush(), "");
}

TEST(BoundedLog, TheBeginningAndTheEndAreKeptAndWhatWasCutIsSaid) {
  BoundedLog log(4, 3);
  EXPECT_EQ(log.Append("ab"), "ab");
  EXPECT_EQ(log.Append("cdefghij"), "cd");
  EXPECT_EQ(log.Flush(), "\n[... 3 bytes were cut here ...]\nhij");
  EXPECT_EQ(log.Flush(), "");
}

TEST(BoundedLog, WhatFitsBetweenBeginningAndEndIsNotMarkedAsCut) {
  BoundedLog log(4, 3);
  EXPECT_EQ(log.Append("abcdefg"), "abcd");
  EXPECT_EQ(log.Flush(), "efg");
}

// Every way of cutting the same text into pieces keeps the same bytes.
TEST(BoundedLog, PiecesDoNotMatter) {
  std::string text;
  for (int n = 0; n < 500; ++n) text += static_cast<char>('a' + n % 26);
  for (const size_t piece : {1, 2, 3, 7, 50, 499, 500}) {
    BoundedLog log(17, 31);
    std::string passed;
    for (size_t at = 0; at < text.size(); at += piece) passed += log.Append(text.substr(at, piece));
    EXPECT_EQ(passed, text.substr(0, 17)) << piece;
    EXPECT_EQ(log.Flush(), "\n[... 452 bytes were cut here ...]\n" + text.substr(500 - 31))
        << piece;
  }
}

TEST(BoundedLog, LastKnowsTheEndThoughItWasPassedOn) {
  BoundedLog log(100, 10);
  log.Append("first line\n");
  log.Append("last words\n");
  EXPECT_EQ(log.last(), "first line\nlast words\n");
}

}  // namespace
}  // namespace lcab::worker
