// The life of jobs, trials and attempts, as the store tells it: without network, with a clock of
// the test's own.

#include <vector>

#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Life, TrialsOfACohortRunToTheirResultsAndTheJobSucceeds) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled", "ref"}}));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_QUEUED);
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  EXPECT_THAT(assign.trials(), ElementsAre(0, 1));
  EXPECT_THAT(assign.attempts(), ElementsAre(1, 1));
  EXPECT_THAT(assign.trial_indices(), ElementsAre(0, 1));
  ASSERT_EQ(assign.placements_size(), 1);
  EXPECT_EQ(assign.placements(0).device(), "cpu:0");
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_RUNNING);
  world.Tell(w1, World::Started(assign, 0));
  EXPECT_EQ(world.Tell(w1, World::Ended(assign, 0, kOk)), "");
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(world.Tell(w1, World::Ended(assign, 1, kOk)), "");
  world.Tell(w1, World::Over(assign));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(world.Job(job).counts().ok(), 2);
  const v1::Trial trial = world.Trial(job, 1);
  EXPECT_EQ(trial.result().statistics().samples(), 10);
  EXPECT_THAT(trial.attempts(0).workers(), ElementsAre("w1"));
  world.CheckInvariants();
}

TEST(Life, WrongResultIsAResultAndFailsTheJobWithoutARetry) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(
      w1, World::Ended(assign, 0, MakeResult(v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL, "row 3")));
  world.Tell(w1, World::Over(assign));
  world.Decide();
  EXPECT_THAT(world.Inbox("w1"), IsEmpty());
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(world.Trial(job, 0).attempts(), testing::SizeIs(1));
}

TEST(Life, UnsupportedPointsEndAtSubmissionWithTheirReason) {
  World world;
  Expansion expansion = MakeExpansion({{"tiled", "ref"}});
  expansion.cohorts[0].mutable_trials(1)->set_unsupported_reason("8 heads do not divide by 3");
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(expansion);
  EXPECT_EQ(world.Trial(job, 1).result().outcome(), v1::OUTCOME_UNSUPPORTED);
  EXPECT_EQ(world.Trial(job, 1).result().reason(), "8 heads do not divide by 3");
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  EXPECT_THAT(assign.trials(), ElementsAre(0));
  world.Tell(w1, World::Ended(assign, 0, kOk));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);

  expansion.cohorts[0].mutable_trials(0)->set_unsupported_reason("neither");
  EXPECT_EQ(world.Job(world.Submit(expansion)).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST(Life, SameRequestIdIsTheSameJob) {
  World world;
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}), "ann", "r-1");
  EXPECT_EQ(world.Submit(MakeExpansion({{"tiled"}, {"ref"}}), "ann", "r-1"), job);
  EXPECT_EQ(world.Job(job).counts().total(), 1);
  EXPECT_NE(world.Submit(MakeExpansion({{"tiled"}}), "ann", "r-2"), job);
  EXPECT_NE(world.Submit(MakeExpansion({{"tiled"}})), world.Submit(MakeExpansion({{"tiled"}})));
}

// Case V1, as far as the coordinator decides it.
TEST(Life, RunnerThatIsKilledEachTimeIsTriedThreeTimesAlsoAcrossARestart) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t killer = world.Submit(MakeExpansion({{"tiled"}}));
  std::vector<int64_t> normal;
  for (int i = 0; i < 20; ++i) normal.push_back(world.Submit(MakeExpansion({{"ref"}})));
  int killed = 0;
  for (int step = 0; step < 100; ++step) {
    if (killed == 1 && step < 50) {
      // In between, once: with the second attempt claimed.
      world.Decide();
      const v1::Assign assign = world.TakeAssign("w1");
      world.Restart();
      world.Connect(w1, {assign.assignment()});
      const bool kills = assign.cohort().trials(0).kernel().name() == "tiled";
      world.Tell(w1, World::Ended(assign, 0, kills ? kKilled : kOk));
      world.Tell(w1, World::Over(assign));
      killed += kills ? 1 : 0;
      step = 50;
      continue;
    }
    world.Decide();
    for (const v1::ToWorker& message : world.Inbox("w1")) {
      const v1::Assign& assign = message.assign();
      const bool kills = assign.cohort().trials(0).kernel().name() == "tiled";
      killed += kills ? 1 : 0;
      world.Tell(w1, World::Started(assign, 0));
      world.Tell(w1, World::Ended(assign, 0, kills ? kKilled : kOk));
      world.Tell(w1, World::Over(assign));
    }
  }
  EXPECT_EQ(killed, 3);
  const v1::Trial trial = world.Trial(killer, 0);
  EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_CRASHED);
  EXPECT_EQ(trial.result().fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_THAT(trial.result().reason(), HasSubstr("3 attempts"));
  ASSERT_EQ(trial.attempts_size(), 3);
  for (const v1::Attempt& attempt : trial.attempts()) {
    EXPECT_EQ(attempt.outcome(), v1::OUTCOME_CRASHED);
    EXPECT_THAT(attempt.workers(), ElementsAre("w1"));
  }
  for (const int64_t job : normal) EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  world.CheckInvariants();
}

TEST(Life, AttemptCountsFromItsClaimEvenIfNothingIsHeardOfItAgain) {
  World world(/*max_attempts=*/2);
  auto& w1 = world.AddWorker("w1");
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  for (int i = 0; i < 2; ++i) {
    world.Connect(w1);
    EXPECT_EQ(world.Job(job).counts().pending(), 1);
    world.Decide();
    world.TakeAssign("w1");
    world.Restart();  // with the worker: both were one process
    w1.incarnation += "+";
  }
  world.Connect(w1);
  EXPECT_EQ(world.Trial(job, 0).result().outcome(), v1::OUTCOME_LOST);
  EXPECT_THAT(world.Trial(job, 0).attempts(), testing::SizeIs(2));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  world.CheckInvariants();
}

TEST(Life, RunnerThatDiesAtTheThirdTrialCostsTheOthersNoAttempt) {
  World world;
  auto& w1 = world.AddWorker("w1", 1, {"a", "b", "c", "d", "e"});
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"a", "b", "c", "d", "e"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  for (int trial = 0; trial < 4; ++trial) world.Tell(w1, World::Started(assign, trial));
  world.Tell(w1, World::Ended(assign, 0, kOk));
  world.Tell(w1, World::Ended(assign, 2, kKilled));
  world.Tell(w1, World::Over(assign, "the runner was killed", v1::FAULT_INFRASTRUCTURE));
  EXPECT_EQ(world.Job(job).counts().pending(), 4);
  EXPECT_THAT(Attempts(world.Trial(job, 1)),
              ElementsAre(Shown(v1::OUTCOME_CANCELLED, v1::FAULT_INFRASTRUCTURE, false)));
  EXPECT_THAT(world.Trial(job, 1).attempts(0).reason(), HasSubstr("trial 2 of its cohort"));
  EXPECT_THAT(Attempts(world.Trial(job, 2)),
              ElementsAre(Shown(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, true)));
  EXPECT_THAT(Attempts(world.Trial(job, 4)),
              ElementsAre(Shown(v1::OUTCOME_CANCELLED, v1::FAULT_INFRASTRUCTURE, false)));
  world.Decide();
  const v1::Assign again = world.TakeAssign("w1");
  EXPECT_THAT(again.trials(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(again.attempts(), ElementsAre(2, 2, 2, 2));
  world.CheckInvariants();
}

TEST(Life, KernelThatCrashesEndsItsTrialAtOnceAndTheRestOfItsCohortGoesOn) {
  World world(/*max_attempts=*/1);
  auto& w1 = world.AddWorker("w1", 1, {"a", "b", "c"});
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"a", "b", "c"}}));
  std::vector<v1::Outcome> crashed_first;
  for (int round = 0; round < 2; ++round) {
    world.Decide();
    const v1::Assign assign = world.TakeAssign("w1");
    for (const int trial : assign.trials()) world.Tell(w1, World::Started(assign, trial));
    world.Tell(w1, World::Ended(assign, assign.trials(0), kSegfault));
    world.Tell(w1, World::Over(assign, "the runner died", v1::FAULT_KERNEL));
  }
  world.Decide();
  const v1::Assign last = world.TakeAssign("w1");
  EXPECT_THAT(last.trials(), ElementsAre(2));
  world.Tell(w1, World::Ended(last, 2, kOk));
  world.Tell(w1, World::Over(last));
  EXPECT_EQ(world.Job(job).counts().crashed(), 2);
  EXPECT_EQ(world.Job(job).counts().ok(), 1);
  world.CheckInvariants();
}

TEST(Life, AssignmentThatEndsBeforeAnythingStartedChargesAllSoThatItEndsSometime) {
  World world(/*max_attempts=*/2);
  auto& w1 = world.AddWorker("w1", 1, {"a", "b"});
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"a", "b"}}));
  for (int round = 0; round < 2; ++round) {
    world.Decide();
    const v1::Assign assign = world.TakeAssign("w1");
    world.Tell(w1, World::Over(assign, "the runner does not start", v1::FAULT_INFRASTRUCTURE));
  }
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(world.Job(job).counts().crashed(), 2);
  EXPECT_THAT(world.Trial(job, 1).result().reason(), HasSubstr("the runner does not start"));
  world.CheckInvariants();
}

TEST(Life, RetryGoesToAnotherWorkerFirst) {
  World world;
  auto& w1 = world.AddWorker("w1");
  auto& w2 = world.AddWorker("w2");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  world.Connect(w2);
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Ended(assign, 0, kKilled));
  world.Tell(w1, World::Over(assign));
  world.Decide();
  const v1::Assign again = world.TakeAssign("w2");
  EXPECT_THAT(world.Inbox("w1"), IsEmpty());
  world.Tell(w2, World::Ended(again, 0, kOk));
  EXPECT_EQ(world.Job(job).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(world.Trial(job, 0).attempts(1).workers(), ElementsAre("w2"));
}

TEST(Life, TrialIsNotTriedAgainBeforeTheRunnerOfItsLastAttemptIsGone) {
  World world;
  auto& w1 = world.AddWorker("w1");
  auto& w2 = world.AddWorker("w2");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  world.Connect(w2);
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Ended(assign, 0, kKilled));
  world.Decide();
  EXPECT_THAT(world.Inbox("w2"), IsEmpty());
  world.Tell(w1, World::Over(assign));
  world.Decide();
  world.TakeAssign("w2");
}

TEST(Life, EventThatComesTwiceChangesNothingTheSecondTime) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  v1::AssignmentEvent ended = World::Ended(assign, 0, kKilled);
  v1::AssignmentEvent over = World::Over(assign);
  ended.set_sequence(1);
  over.set_sequence(5);  // gaps are allowed
  world.Tell(w1, ended);
  world.Tell(w1, over);
  const size_t events = world.Events(job).size();
  world.Tell(w1, ended);
  world.Tell(w1, over);
  EXPECT_EQ(world.Events(job).size(), events);
  EXPECT_EQ(world.Job(job).counts().pending(), 1);
  world.CheckInvariants();
}

TEST(Life, EventsThatMakeNoSenseAreIgnoredAndSaidSo) {
  World world;
  auto& w1 = world.AddWorker("w1");
  auto& w2 = world.AddWorker("w2");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  world.Connect(w2);
  v1::Assign assign = world.TakeAssign("w1");
  EXPECT_THAT(world.Tell(w2, World::Ended(assign, 0, kOk)), HasSubstr("has no share"));
  EXPECT_THAT(world.Tell(w1, World::Ended(assign, 7, kOk)), HasSubstr("no attempt"));
  EXPECT_THAT(world.Tell(w1, World::Started(assign, -1)), HasSubstr("no trial -1"));
  v1::AssignmentEvent empty;
  empty.set_assignment(assign.assignment());
  EXPECT_THAT(world.Tell(w1, empty), HasSubstr("says nothing"));
  v1::Assign other = assign;
  other.set_assignment("assignments/1-otherdb");
  EXPECT_THAT(world.Tell(w1, World::Over(other)), HasSubstr("there is no"));
  assign.set_attempts(0, 9);
  EXPECT_THAT(world.Tell(w1, World::Ended(assign, 0, kOk)), HasSubstr("no attempt 9"));
  EXPECT_EQ(world.Job(job).counts().running(), 1);
  world.CheckInvariants();
}

}  // namespace
}  // namespace lcab::coordinator
