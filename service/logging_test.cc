#include "service/logging.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"

namespace lcab::service {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// What the log says of `text` from elsewhere.
std::string Logged(const std::string& text) {
  EXPECT_TRUE(SetUpLogging("info").ok());
  testing::internal::CaptureStderr();
  spdlog::info("trial ended reason=\"{}\"", text);
  return testing::internal::GetCapturedStderr();
}

TEST(SetUpLogging, ALineHasItsTimeLevelAndMessage) {
  EXPECT_THAT(Logged("out of memory, größer"),
              ContainsRegex("^[0-9-]+T[0-9:.]+Z info trial ended "
                            "reason=\"out of memory, größer\"\n$"));
}

TEST(SetUpLogging, WhatATerminalWouldActUponIsShownInstead) {
  EXPECT_THAT(Logged("a\x1b[2Jb\u202Ec"), HasSubstr(R"(reason="a\x1b[2Jb\u202ec")"));
  EXPECT_THAT(Logged("a\xff"), HasSubstr(R"(reason="a\xff")"));
}

TEST(SetUpLogging, AMessageIsOneLine) {
  const std::string line = Logged("lost\n2026-01-01T00:00:00.000Z info all is well\r");
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_THAT(line, HasSubstr(R"(lost\x0a2026-01-01T00:00:00.000Z info all is well\x0d")"));
}

TEST(SetUpLogging, ALevelThatThereIsNotIsRefusedWithThoseThatThereAre) {
  const absl::Status status = SetUpLogging("loud");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("trace, debug, info, warn, error and off"));
}

}  // namespace
}  // namespace lcab::service
