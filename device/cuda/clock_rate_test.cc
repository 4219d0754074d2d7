#include "device/cuda/clock_rate.h"

#include <vector>

#include "gtest/gtest.h"

namespace lcab::cuda {
namespace {

TEST(ClockHz, IsCyclesOverTimeOfTheMultiprocessorInTheMiddle) {
  const std::vector<ClockStamp> before = {{1'000, 5'000}, {77, 5'000}, {9'000'000, 5'000}};
  // 1980, 1755 and 345 cycles in a microsecond.
  const std::vector<ClockStamp> after = {{2'980, 6'000}, {1'832, 6'000}, {9'000'345, 6'000}};
  EXPECT_DOUBLE_EQ(ClockHz(before, after), 1.755e9);
}

TEST(ClockHz, MultiprocessorsThatWereNotReadTwiceAreLeftOut) {
  const std::vector<ClockStamp> before = {{}, {1'000, 5'000}, {1'000, 5'000}, {1'000, 5'000}};
  const std::vector<ClockStamp> after = {
      {1'000'000, 6'000}, {1'000, 5'000}, {2'500, 6'000}, {10, 6'000}};
  EXPECT_DOUBLE_EQ(ClockHz(before, after), 1.5e9);
}

TEST(ClockHz, IsUnknownWhereNothingWasRead) {
  EXPECT_EQ(ClockHz({}, {}), 0);
  const std::vector<ClockStamp> same = {{1'000, 5'000}};
  EXPECT_EQ(ClockHz(same, same), 0);
}

}  // namespace
}  // namespace lcab::cuda
