// Attempts whose ranks are spread over several workers.

#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Gang {
  explicit Gang(World& world) : w1(world.AddWorker("w1", 2)), w2(world.AddWorker("w2", 2)) {
    world.Connect(w1);
    world.Connect(w2);
    job = world.Submit(MakeExpansion({{"tiled", "ref"}}, /*ranks=*/4));
    world.Decide();
    first = world.TakeAssign("w1");
    second = world.TakeAssign("w2");
  }
  World::FakeWorker& w1;
  World::FakeWorker& w2;
  int64_t job;
  v1::Assign first;
  v1::Assign second;
};

TEST(GangLife, GangOverTwoWorkersHasNeighbouringRanksOnEach) {
  World world;
  Gang gang(world);
  EXPECT_EQ(gang.first.assignment(), gang.second.assignment());
  ASSERT_EQ(gang.first.placements_size(), 2);
  ASSERT_EQ(gang.second.placements_size(), 2);
  EXPECT_EQ(gang.first.placements(0).rank(), 0);
  EXPECT_EQ(gang.first.placements(1).rank(), 1);
  EXPECT_EQ(gang.second.placements(0).rank(), 2);
  EXPECT_EQ(gang.second.placements(1).rank(), 3);
  world.Tell(gang.w1, World::Ended(gang.first, 0, kOk));
  world.Tell(gang.w1, World::Ended(gang.first, 1, kOk));
  world.Tell(gang.w1, World::Over(gang.first));
  EXPECT_EQ(world.Job(gang.job).state(), v1::JOB_STATE_SUCCEEDED);
  world.Submit(MakeExpansion({{"tiled"}}, /*ranks=*/4));
  world.Decide();
  EXPECT_THAT(world.Inbox("w1"), IsEmpty()) << "w2's devices are not free yet";
  world.Tell(gang.w2, World::Over(gang.second));
  world.Decide();
  world.TakeAssign("w1");
  world.CheckInvariants();
}

TEST(GangLife, RankThatDiesOnOneWorkerStopsTheOtherAndTheCauseBeatsItsEcho) {
  World world;
  Gang gang(world);
  // Rank 0 notices first that its peer is gone.
  world.Tell(gang.w1, World::Ended(gang.first, 0,
                                   MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE,
                                              "rank 3 closed the connection", 3)));
  EXPECT_TRUE(world.WasCancelled("w1", gang.first.assignment()));
  EXPECT_TRUE(world.WasCancelled("w2", gang.first.assignment()));
  world.Tell(gang.w2, World::Ended(gang.second, 0,
                                   MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL,
                                              "rank 3 died of SIGSEGV", 3)));
  world.Tell(gang.w1, World::Over(gang.first, "stopped"));
  EXPECT_EQ(world.Job(gang.job).counts().crashed(), 0) << "the other worker may know better";
  world.Tell(gang.w2, World::Over(gang.second, "stopped"));
  const v1::Trial trial = world.Trial(gang.job, 0);
  EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_CRASHED);
  EXPECT_EQ(trial.result().fault(), v1::FAULT_KERNEL);
  EXPECT_EQ(trial.result().rank(), 3);
  EXPECT_THAT(trial.attempts(0).workers(), ElementsAre("w1", "w2"));
  EXPECT_THAT(Attempts(world.Trial(gang.job, 1)),
              ElementsAre(Shown(v1::OUTCOME_CANCELLED, v1::FAULT_INFRASTRUCTURE, false)));
  world.CheckInvariants();
}

TEST(GangLife, AttemptOfAGangEndsWithinTenSecondsOfTheFaultAlsoIfAWorkerDoesNotAnswer) {
  World world(/*max_attempts=*/1);
  Gang gang(world);
  world.Tell(gang.w2, World::Ended(gang.second, 0, kSegfault));
  world.Tell(gang.w2, World::Over(gang.second, "the runner died", v1::FAULT_KERNEL));
  EXPECT_TRUE(world.WasCancelled("w1", gang.first.assignment()));
  world.Advance(absl::Seconds(9));
  world.Decide();
  EXPECT_EQ(world.Job(gang.job).counts().crashed(), 1);
  EXPECT_EQ(world.Job(gang.job).counts().pending(), 1);
  // w1 has not said that its devices are free.
  world.Decide();
  EXPECT_THAT(world.Inbox("w1"), IsEmpty());
  world.Tell(gang.w1, World::Over(gang.first, "stopped at last"));
  world.Decide();
  world.TakeAssign("w2");
  world.CheckInvariants();
}

TEST(GangLife, OutOfMemoryOfAGangIsBelievedFromRankZeroAndTheCohortGoesOn) {
  World world;
  Gang gang(world);
  const v1::TrialResult out_of_memory =
      MakeResult(v1::OUTCOME_OUT_OF_MEMORY, v1::FAULT_LIMIT, "rank 2: 4 GiB of 1 GiB", 2);
  world.Tell(gang.w2, World::Ended(gang.second, 0, out_of_memory));
  EXPECT_EQ(world.Job(gang.job).counts().out_of_memory(), 0);
  world.Tell(gang.w1, World::Ended(gang.first, 0, out_of_memory));
  EXPECT_EQ(world.Job(gang.job).counts().out_of_memory(), 1);
  world.Tell(gang.w1, World::Ended(gang.first, 1, kOk));
  EXPECT_EQ(world.Job(gang.job).counts().ok(), 1);
  EXPECT_FALSE(world.WasCancelled("w1", gang.first.assignment()));
  world.CheckInvariants();
}

TEST(GangLife, LostWorkerOfAGangLosesTheAttemptAndTheOtherIsStopped) {
  World world;
  Gang gang(world);
  world.Tell(gang.w1, World::Started(gang.first, 0));
  world.Disconnect("w2");
  world.Advance(absl::Seconds(31));
  world.Hear("w1");
  EXPECT_THAT(world.Decide().lost, ElementsAre("w2"));
  EXPECT_TRUE(world.WasCancelled("w1", gang.first.assignment()));
  // Rank 0's own account, before it heard of the cancel, is an echo.
  world.Tell(gang.w1, World::Ended(gang.first, 0,
                                   MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE,
                                              "rank 2 did not answer", 2)));
  world.Tell(gang.w1, World::Over(gang.first, "stopped"));
  EXPECT_THAT(Attempts(world.Trial(gang.job, 0)),
              ElementsAre(Shown(v1::OUTCOME_LOST, v1::FAULT_INFRASTRUCTURE, true)));
  EXPECT_THAT(world.Trial(gang.job, 0).attempts(0).reason(), HasSubstr("worker w2"));
  EXPECT_EQ(world.Job(gang.job).counts().pending(), 2);
  world.CheckInvariants();
}

}  // namespace
}  // namespace lcab::coordinator
