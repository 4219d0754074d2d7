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

TEST(ClockMeter, ALongCallStandsForItself) {
  ClockMeter meter;
  EXPECT_EQ(meter.hz(), 0);
  // A millisecond at 1.5 GHz, long after a short call at another clock.
  meter.Add(std::vector<ClockStamp>{{1, 1'000}}, std::vector<ClockStamp>{{2'001, 2'000}});
  EXPECT_EQ(meter.hz(), 0);
  meter.Add(std::vector<ClockStamp>{{9'000'000, 9'000'000}},
            std::vector<ClockStamp>{{10'500'000, 10'000'000}});
  EXPECT_DOUBLE_EQ(meter.hz(), 1.5e9);
}

TEST(ClockMeter, ShortCallsAreTakenTogether) {
  ClockMeter meter;
  // Each takes 10 us, every 50 us; the clock is 1.2 GHz throughout.
  for (uint64_t call = 0; call < 4; ++call) {
    EXPECT_EQ(meter.hz(), 0) << call;
    const uint64_t start = 1'000 + call * 50'000;
    const uint64_t stop = start + 10'000;
    meter.Add(std::vector<ClockStamp>{{start * 6 / 5, start}},
              std::vector<ClockStamp>{{stop * 6 / 5, stop}});
  }
  meter.Add(std::vector<ClockStamp>{{241'200, 201'000}},
            std::vector<ClockStamp>{{253'200, 211'000}});
  EXPECT_DOUBLE_EQ(meter.hz(), 1.2e9);
}

}  // namespace
}  // namespace lcab::cuda
