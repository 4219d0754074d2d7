#include "report/quantities.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace lcab::report {
namespace {

TEST(Quantities, HaveThreeDigitsAlsoAtTheEdgeOfTheNext) {
  EXPECT_EQ(ThreeDigits(0), "0.00");
  EXPECT_EQ(ThreeDigits(0.01234), "0.012");
  EXPECT_EQ(ThreeDigits(0.9996), "1.00");
  EXPECT_EQ(ThreeDigits(9.994), "9.99");
  EXPECT_EQ(ThreeDigits(9.996), "10.0");
  EXPECT_EQ(ThreeDigits(99.94), "99.9");
  EXPECT_EQ(ThreeDigits(99.96), "100");
  EXPECT_EQ(ThreeDigits(1234.5), "1234");
  EXPECT_EQ(ThreeDigits(-41.23), "-41.2");
  EXPECT_EQ(ThreeDigits(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Quantities, SecondsTakeTheUnitThatFits) {
  EXPECT_EQ(SecondsText(812e-9), "812 ns");
  EXPECT_EQ(SecondsText(999.7e-9), "1.00 us");
  EXPECT_EQ(SecondsText(0.00652), "6.52 ms");
  EXPECT_EQ(SecondsText(0.9996), "1.00 s");
  EXPECT_EQ(SecondsText(59.96), "60.0 s");
  EXPECT_EQ(SecondsText(185), "3 m 05 s");
  EXPECT_EQ(SecondsText(0), "-");
  EXPECT_EQ(SecondsText(-1), "-");
  EXPECT_EQ(SecondsText(std::numeric_limits<double>::infinity()), "-");
}

TEST(Quantities, WaitsAreRoundedToSecondsOrMinutes) {
  EXPECT_EQ(WaitText(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(WaitText(absl::Milliseconds(4'400)), "4 s");
  EXPECT_EQ(WaitText(absl::Milliseconds(59'700)), "1 m 00 s");
  EXPECT_EQ(WaitText(absl::Seconds(4'200)), "1 h 10 m");
  EXPECT_EQ(WaitText(-absl::Seconds(5)), "0 s");
}

TEST(Quantities, BytesAreBinaryAndCountsDecimal) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(3'932'160), "3.75 MiB");
  EXPECT_EQ(BytesText(INT64_MAX), "8.00 EiB");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(21'485'322'240), "21.5 G");
  EXPECT_EQ(CountText(1.40737e14), "141 T");
}

TEST(Quantities, IntegersAreGroupedByThrees) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1'000), "1,000");
  EXPECT_EQ(Grouped(8'390'656), "8,390,656");
  EXPECT_EQ(Grouped(-1'234), "-1,234");
  EXPECT_EQ(Grouped(-123), "-123");
  EXPECT_EQ(Grouped(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace lcab::report
