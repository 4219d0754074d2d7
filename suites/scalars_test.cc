#include "suites/scalars.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace lcab::suites {
namespace {

TEST(Scalars, SizesAreIntegersWithBinaryUnits) {
  EXPECT_EQ(ParseSize("0"), 0);
  EXPECT_EQ(ParseSize("4096"), 4096);
  EXPECT_EQ(ParseSize("-3"), -3);
  EXPECT_EQ(ParseSize("4K"), 4096);
  EXPECT_EQ(ParseSize("1M"), 1'048'576);
  EXPECT_EQ(ParseSize("2G"), int64_t{2'147'483'648});
  EXPECT_EQ(ParseSize("9223372036854775807"), INT64_MAX);
}

TEST(Scalars, NothingElseIsASize) {
  for (const std::string_view text : {"",
                                      "K",
                                      "-",
                                      "-K",
                                      "4k",
                                      "4KB",
                                      "4 K",
                                      " 4",
                                      "4 ",
                                      "+4",
                                      "0x10",
                                      "1e3",
                                      "1.5K",
                                      "010",
                                      "1_000",
                                      "1,000",
                                      "4KK",
                                      "nan",
                                      "9223372036854775808",
                                      "9007199254740992K",
                                      "-9999999999G"}) {
    EXPECT_FALSE(ParseSize(text).has_value()) << "'" << text << "'";
  }
}

TEST(Scalars, RealsAreFiniteDecimals) {
  EXPECT_EQ(ParseReal("0.02"), 0.02);
  EXPECT_EQ(ParseReal("-1.5"), -1.5);
  EXPECT_EQ(ParseReal("3"), 3.0);
  EXPECT_EQ(ParseReal("1e-3"), 1e-3);
  for (const std::string_view text :
       {"", ".", ".5", "inf", "-inf", "nan", "1e999", "0x1", "1,5", "2%", "01"}) {
    EXPECT_FALSE(ParseReal(text).has_value()) << "'" << text << "'";
  }
}

TEST(Scalars, DurationsHaveAUnit) {
  EXPECT_EQ(ParseDuration("5s"), absl::Seconds(5));
  EXPECT_EQ(ParseDuration("500ms"), absl::Milliseconds(500));
  EXPECT_EQ(ParseDuration("1.5s"), absl::Milliseconds(1500));
  EXPECT_EQ(ParseDuration("1h30m"), absl::Minutes(90));
  for (const std::string_view text : {"", "5", "s", "5 s", "5sec", "-5s", "inf", "infs", "5s5"}) {
    EXPECT_FALSE(ParseDuration(text).has_value()) << "'" << text << "'";
  }
}

TEST(Scalars, BoolsAreTrueAndFalseOnly) {
  EXPECT_EQ(ParseBool("true"), true);
  EXPECT_EQ(ParseBool("false"), false);
  for (const std::string_view text : {"yes", "no", "on", "off", "True", "1", ""}) {
    EXPECT_FALSE(ParseBool(text).has_value()) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace lcab::suites
