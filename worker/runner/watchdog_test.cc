#include "worker/runner/watchdog.h"

#include <future>
#include <mutex>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::runner {
namespace {

TEST(WatchdogTest, ActsInOrderWhenTimeIsUp) {
  Watchdog watchdog;
  std::mutex mutex;
  std::vector<int> acts;
  std::promise<void> last;
  const absl::Time now = absl::Now();
  watchdog.Set({{now - absl::Seconds(1),
                 [&] {
                   const std::lock_guard lock(mutex);
                   acts.push_back(1);
                 }},
                {now + absl::Milliseconds(5), [&] {
                   const std::lock_guard lock(mutex);
                   acts.push_back(2);
                   last.set_value();
                 }}});
  ASSERT_EQ(last.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(acts, testing::ElementsAre(1, 2));
}

TEST(WatchdogTest, NothingActsAfterItWasCleared) {
  Watchdog watchdog;
  bool acted = false;
  watchdog.Set({{absl::Now() + absl::Hours(1), [&] { acted = true; }}});
  watchdog.Clear();
  // A new alarm takes the place of the old one.
  std::promise<void> done;
  watchdog.Set({{absl::Now(), [&] { done.set_value(); }}});
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(acted);
}

TEST(WatchdogTest, AlarmsOfTheFarFutureDoNotKeepItFromEnding) {
  Watchdog watchdog;
  watchdog.Set({{absl::InfiniteFuture(), [] { FAIL(); }}});
}

}  // namespace
}  // namespace lcab::runner
