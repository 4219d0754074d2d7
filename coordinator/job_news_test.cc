#include "coordinator/job_news.h"

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::SizeIs;

TEST(JobNews, WatchBeginsAwakeSoThatWhatIsStoredIsReadFirst) {
  JobNews news;
  JobNews::Watch watch(news, 1);
  EXPECT_THAT(watch.Wait(absl::Hours(1)), SizeIs(0));
}

TEST(JobNews, OnlyNewsOfTheWatchedJobWakes) {
  JobNews news;
  JobNews::Watch first(news, 1);
  JobNews::Watch second(news, 2);
  first.Wait(absl::Hours(1));
  second.Wait(absl::Hours(1));
  std::thread waiting([&] { first.Wait(absl::Hours(1)); });
  news.Publish({1});
  waiting.join();
  EXPECT_THAT(second.Wait(absl::Milliseconds(1)), SizeIs(0));
}

TEST(JobNews, LatestStageOfEachTrialIsDelivered) {
  JobNews news;
  JobNews::Watch watch(news, 1);
  for (int samples = 1; samples <= 3; ++samples) {
    news.Publish(1, {.number = 7, .stage = "sample", .samples = samples});
    news.Publish(1, {.number = 8, .stage = "probe"});
    news.Publish(2, {.number = 9, .stage = "sample"});
  }
  const std::vector<TrialStage> stages = watch.Wait(absl::Hours(1));
  ASSERT_THAT(stages, SizeIs(2));
  EXPECT_EQ(stages[0].number, 7);
  EXPECT_EQ(stages[0].samples, 3);
  EXPECT_EQ(stages[1].stage, "probe");
  news.Publish({1});
  EXPECT_THAT(watch.Wait(absl::Hours(1)), SizeIs(0)) << "told once";
}

TEST(JobNews, CloseWakesEverybodyFromThenOn) {
  JobNews news;
  JobNews::Watch watch(news, 1);
  watch.Wait(absl::Hours(1));
  std::thread waiting([&] { watch.Wait(absl::Hours(1)); });
  news.Close();
  waiting.join();
  watch.Wait(absl::Hours(1));
}

}  // namespace
}  // namespace lcab::coordinator
