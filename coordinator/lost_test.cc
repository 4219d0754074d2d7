// Workers that are lost, come back, or come back too late.

#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Lost, LostWorkersTrialIsTriedElsewhereAndTheFirstResultCounts) {
  World world;
  auto& w1 = world.AddWorker("w1");
  auto& w2 = world.AddWorker("w2");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign first = world.TakeAssign("w1");
  world.Tell(w1, World::Started(first, 0));
  world.Disconnect("w1");
  world.Advance(absl::Seconds(31));
  world.Connect(w2);
  world.Decide();  // loses w1
  world.Decide();
  const v1::Assign second = world.TakeAssign("w2");
  world.Tell(w2, World::Started(second, 0));
  // w1 was only cut off; its result was complete.
  EXPECT_EQ(world.Tell(w1, World::Ended(first, 0, kOk)), "");
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(world.WasCancelled("w2", second.assignment()));
  EXPECT_THAT(world.Tell(w2, World::Ended(second, 0, MakeResult(v1::OUTCOME_WRONG_RESULT))),
              HasSubstr("second result is not kept"));
  world.Tell(w2, World::Over(second));
  EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(world.Job(job).counts().ok(), 1);
  world.CheckInvariants();
}

// Case V4, second half: the coordinator cannot be reached for 60 s in mid-trial.
TEST(Lost, TrialThatOutlivesItsLossGoesOnAndItsLateResultOverridesLost) {
  for (const int max_attempts : {1, 3}) {
    World world(max_attempts);
    auto& w1 = world.AddWorker("w1");
    world.Connect(w1);
    const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
    world.Decide();
    const v1::Assign assign = world.TakeAssign("w1");
    world.Tell(w1, World::Started(assign, 0));
    world.Disconnect("w1");
    world.Advance(absl::Seconds(60));
    world.Decide();
    // With attempts left it waits for a worker, else it is over for now.
    EXPECT_EQ(world.Job(job).counts().pending(), max_attempts > 1 ? 1 : 0);
    EXPECT_EQ(world.Job(job).counts().lost(), max_attempts > 1 ? 0 : 1);
    EXPECT_THAT(world.Hello(w1, {assign.assignment()}), IsEmpty()) << "it may go on";
    world.Beat(w1, {assign.assignment()});
    world.Decide();
    EXPECT_THAT(world.Inbox("w1"), IsEmpty()) << "no second run beside the first";
    world.CheckInvariants();
    EXPECT_EQ(world.Tell(w1, World::Ended(assign, 0, kOk)), "");
    world.Tell(w1, World::Over(assign));
    EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_OK);
    EXPECT_THAT(world.Trial(job, 0).attempts(), testing::SizeIs(1));
    world.CheckInvariants();
  }
}

// Case V4, first half: a worker that is heard of is never lost, however long its trial takes.
TEST(Lost, BusyWorkerThatIsHeardOfIsNeverLost) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  // Ten minutes would be over the trial's limit of one and the slack; here heartbeats matter.
  for (int i = 0; i < 10; ++i) {
    world.Advance(absl::Seconds(10));
    world.Hear("w1");
    EXPECT_THAT(world.Decide().lost, IsEmpty());
  }
  world.Tell(w1, World::Ended(assign, 0, kOk));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(world.Trial(job, 0).attempts(), testing::SizeIs(1));
}

TEST(Lost, WorkerThatComesBackToAnAssignmentWhosePlaceIsTakenIsToldToStop) {
  World world;
  auto& w1 = world.AddWorker("w1");
  auto& w2 = world.AddWorker("w2");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign first = world.TakeAssign("w1");
  world.Disconnect("w1");
  world.Advance(absl::Seconds(31));
  world.Connect(w2);
  world.Decide();
  world.Decide();
  const v1::Assign second = world.TakeAssign("w2");
  EXPECT_THAT(world.Hello(w1, {first.assignment(), "assignments/99-unknown"}),
              ElementsAre(first.assignment(), "assignments/99-unknown"));
  world.Beat(w1, {first.assignment()});
  // Until it says that it has stopped, its device is in use.
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  EXPECT_THAT(world.Inbox("w1"), IsEmpty());
  world.Tell(w1, World::Over(first, "stopped"));
  world.Decide();
  world.TakeAssign("w1");
  world.Tell(w2, World::Ended(second, 0, kOk));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  world.CheckInvariants();
}

TEST(Lost, RestartedWorkersAssignmentIsLostOnlyAfterItsStoredEventsWereHeard) {
  World world;
  auto& w1 = world.AddWorker("w1", 1, {"a", "b"});
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"a", "b"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Started(assign, 0));
  world.Disconnect("w1");
  // It was killed after it had written trial 0's result to its disk.
  v1::AssignmentEvent kept = World::Ended(assign, 0, kOk);
  kept.set_sequence(2);
  kept.set_incarnation("1");
  w1.incarnation = "2";
  w1.sequence = 0;
  world.Hello(w1);
  EXPECT_EQ(world.Tell(w1, kept), "");
  world.Beat(w1);
  EXPECT_EQ(world.Job(job).counts().ok(), 1);
  EXPECT_EQ(world.Job(job).counts().pending(), 1);
  EXPECT_THAT(Attempts(world.Trial(job, 0)),
              ElementsAre(Shown(v1::OUTCOME_OK, v1::FAULT_UNSPECIFIED, true)));
  world.CheckInvariants();
}

TEST(Lost, WorkersOfARestartedCoordinatorHaveTheWholeTimeoutToComeBack) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Advance(absl::Minutes(1));  // the coordinator is down
  world.Restart();
  world.Advance(absl::Seconds(29));
  EXPECT_THAT(world.Decide().lost, IsEmpty());
  world.Connect(w1, {assign.assignment()});
  world.Advance(absl::Seconds(20));
  EXPECT_THAT(world.Decide().lost, IsEmpty());
  world.Tell(w1, World::Ended(assign, 0, kOk));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST(Lost, AssignmentThatItsWorkersDoNotEndInTimeIsStopped) {
  World world(/*max_attempts=*/1);
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Started(assign, 0));
  world.Advance(absl::Minutes(3) + absl::Seconds(1));  // its limit is one minute, the slack two
  world.Hear("w1");
  world.Decide();
  EXPECT_TRUE(world.WasCancelled("w1", assign.assignment()));
  world.Advance(absl::Seconds(9));
  world.Hear("w1");
  world.Decide();
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(world.Trial(job, 0).result().reason(), HasSubstr("did not end it within"));
  world.CheckInvariants();
}

}  // namespace
}  // namespace lcab::coordinator
