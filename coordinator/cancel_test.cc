// What people do to jobs that run.

#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Case V2, as far as the coordinator decides it.
TEST(Cancel, CancelOfAQueuedJobIsFinalAtOnce) {
  World world;
  const int64_t job = world.Submit(MakeExpansion({{"tiled", "ref"}, {"tiled"}}));
  ASSERT_TRUE(world.Cancel(job).ok());
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(world.Job(job).counts().cancelled(), 3);
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Decide();
  EXPECT_THAT(world.Inbox("w1"), IsEmpty());
  world.CheckInvariants();
}

TEST(Cancel, CancelOfARunningJobIsFinalOnceNoRunnerIsLeftAndNoResultComesAfter) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}, {"ref"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  ASSERT_TRUE(world.Cancel(job).ok());
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_CANCELLING);
  EXPECT_EQ(world.Job(job).counts().cancelled(), 1);
  EXPECT_TRUE(world.WasCancelled("w1", assign.assignment()));
  ASSERT_TRUE(world.Cancel(job).ok()) << "asking twice is no error";
  world.Advance(absl::Minutes(2));
  world.Hear("w1");
  world.Decide();
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_CANCELLING) << "its runner may still live";
  world.Tell(w1, World::Over(assign, "cancelled"));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(world.Tell(w1, World::Ended(assign, 0, kOk)), HasSubstr("not kept"));
  EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_CANCELLED);
  world.CheckInvariants();
}

TEST(Cancel, CancelIsNotWaitedForForEverFromAWorkerThatNeverAnswers) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  world.TakeAssign("w1");
  ASSERT_TRUE(world.Cancel(job).ok());
  world.Advance(absl::Minutes(3) + absl::Seconds(1));  // its limit is one minute, the slack two
  world.Hear("w1");
  world.Decide();
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_LOST);
  EXPECT_THAT(world.Trial(job, 0).result().reason(), HasSubstr("cancelled"));
  world.CheckInvariants();
}

TEST(Cancel, ResultThatWasCompleteBeforeTheRunnerStoppedIsKeptAndTheJobIsNotCancelled) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  ASSERT_TRUE(world.Cancel(job).ok());
  world.Tell(w1, World::Ended(assign, 0, kOk));
  world.Tell(w1, World::Over(assign, "cancelled"));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_OK);
  world.CheckInvariants();
}

TEST(Cancel, CancelOfAnEndedJobIsRefusedAndChangesNothing) {
  World world;
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  ASSERT_TRUE(world.Cancel(job).ok());
  const auto events = world.Events(job).size();
  const absl::Status status = world.Cancel(job);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(service::ErrorReason(status), "JOB_ENDED");
  EXPECT_EQ(world.Events(job).size(), events);
  EXPECT_EQ(world.Cancel(99).code(), absl::StatusCode::kNotFound);
}

TEST(Cancel, CancelledTrialOfALostWorkerIsLostBecauseItMayStillRun) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  ASSERT_TRUE(world.Cancel(job).ok());
  world.Disconnect("w1");
  world.Advance(absl::Seconds(31));
  world.Decide();
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_LOST);
  world.Tell(w1, World::Ended(assign, 0, kOk));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  world.CheckInvariants();
}

TEST(Cancel, RetryQueuesFailuresAgainWithFreshAttemptsAndKeepsResults) {
  World world(/*max_attempts=*/1);
  auto& w1 = world.AddWorker("w1", 1, {"a", "b", "c"});
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"a", "b", "c"}}));
  EXPECT_EQ(service::ErrorReason(world.Retry(job)), "JOB_RUNNING");
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Ended(assign, 0, kOk));
  world.Tell(w1,
             World::Ended(assign, 1, MakeResult(v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL, "no")));
  world.Tell(w1, World::Ended(assign, 2, kSegfault));
  world.Tell(w1, World::Over(assign));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  ASSERT_TRUE(world.Retry(job).ok());
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(world.Job(job).counts().pending(), 1);
  world.CheckInvariants();
  world.Decide();
  const v1::Assign again = world.TakeAssign("w1");
  EXPECT_THAT(again.trials(), ElementsAre(2));
  EXPECT_THAT(again.attempts(), ElementsAre(2));
  world.Tell(w1, World::Ended(again, 2, kOk));
  world.Tell(w1, World::Over(again));
  EXPECT_EQ(world.Job(job).counts().ok(), 2);
  EXPECT_EQ(world.Job(job).counts().wrong_result(), 1);
  EXPECT_EQ(service::ErrorReason(world.Retry(job)), "NOTHING_TO_RETRY");
  EXPECT_EQ(world.Retry(99).code(), absl::StatusCode::kNotFound);
  world.CheckInvariants();
}

}  // namespace
}  // namespace lcab::coordinator
