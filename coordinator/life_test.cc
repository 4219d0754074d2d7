// The life of jobs, trials and attempts, as the store tells it: without network, with a clock of
// the test's own.

#include <string>
#include <vector>

#include "coordinator/states.h"
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

const v1::TrialResult kOk = MakeResult(v1::OUTCOME_OK);
const v1::TrialResult kKilled = MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE,
                                           "the runner was killed from outside (SIGKILL)", 0);
const v1::TrialResult kSegfault =
    MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "the runner died of SIGSEGV", 0);

// "outcome/fault/counted" of each attempt.
std::vector<std::string> Attempts(const v1::Trial& trial) {
  std::vector<std::string> shown;
  for (const v1::Attempt& attempt : trial.attempts()) {
    shown.push_back(fmt::format("{}/{}/{}", attempt.outcome(), attempt.fault(), attempt.counted()));
  }
  return shown;
}
std::string Shown(v1::Outcome outcome, v1::Fault fault, bool counted) {
  return fmt::format("{}/{}/{}", outcome, fault, counted);
}

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

// --- lost and found

TEST(Life, LostWorkersTrialIsTriedElsewhereAndTheFirstResultCounts) {
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
TEST(Life, TrialThatOutlivesItsLossGoesOnAndItsLateResultOverridesLost) {
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
TEST(Life, BusyWorkerThatIsHeardOfIsNeverLost) {
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

TEST(Life, WorkerThatComesBackToAnAssignmentWhosePlaceIsTakenIsToldToStop) {
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

TEST(Life, RestartedWorkersAssignmentIsLostOnlyAfterItsStoredEventsWereHeard) {
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

TEST(Life, WorkersOfARestartedCoordinatorHaveTheWholeTimeoutToComeBack) {
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

TEST(Life, AssignmentThatItsWorkersDoNotEndInTimeIsStopped) {
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

// --- gangs over several workers

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

TEST(Life, GangOverTwoWorkersHasNeighbouringRanksOnEach) {
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

TEST(Life, RankThatDiesOnOneWorkerStopsTheOtherAndTheCauseBeatsItsEcho) {
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

TEST(Life, AttemptOfAGangEndsWithinTenSecondsOfTheFaultAlsoIfAWorkerDoesNotAnswer) {
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

TEST(Life, OutOfMemoryOfAGangIsBelievedFromRankZeroAndTheCohortGoesOn) {
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

TEST(Life, LostWorkerOfAGangLosesTheAttemptAndTheOtherIsStopped) {
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

// --- cancel and retry

// Case V2, as far as the coordinator decides it.
TEST(Life, CancelOfAQueuedJobIsFinalAtOnce) {
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

TEST(Life, CancelOfARunningJobIsFinalOnceNoRunnerIsLeftAndNoResultComesAfter) {
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

TEST(Life, CancelIsNotWaitedForForEverFromAWorkerThatNeverAnswers) {
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

TEST(Life, SamplesThatAreMissingAreRemarked) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  v1::AssignmentEvent event;
  event.set_assignment(assign.assignment());
  event.mutable_samples()->mutable_chunk()->set_ranks(1);
  for (int i = 0; i < 3; ++i) {
    event.mutable_samples()->mutable_chunk()->add_seconds(1e-3);
    event.mutable_samples()->mutable_chunk()->add_marks(0);
  }
  world.Tell(w1, event);
  v1::AssignmentEvent ended = World::Ended(assign, 0, kOk);
  ended.mutable_trial_ended()->set_iterations(5);
  EXPECT_THAT(world.Tell(w1, ended), HasSubstr("3 of 5 samples"));
}

TEST(Life, ResultThatWasCompleteBeforeTheRunnerStoppedIsKeptAndTheJobIsNotCancelled) {
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

TEST(Life, CancelOfAnEndedJobIsRefusedAndChangesNothing) {
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

TEST(Life, CancelledTrialOfALostWorkerIsLostBecauseItMayStillRun) {
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

TEST(Life, RetryQueuesFailuresAgainWithFreshAttemptsAndKeepsResults) {
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

// --- what watchers and readers see

TEST(Life, EventsAreNumberedWithoutGapsAndCarryTheJobAsItWasThen) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Ended(assign, 0, kOk));
  const std::vector<v1::JobEvent> events = world.Events(job);
  ASSERT_EQ(events.size(), 4U);
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i + 1));
  EXPECT_EQ(events[0].job().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(events[1].job().counts().running(), 1);
  EXPECT_EQ(events[1].trial(), TrialName(job, 0));
  EXPECT_THAT(events[1].message(), HasSubstr("w1 cpu:0"));
  EXPECT_EQ(events[2].trial_state(), v1::TRIAL_STATE_DONE);
  EXPECT_EQ(events[2].result().outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(events[2].spec().kernel().name(), "tiled");
  EXPECT_EQ(events[3].job().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(events[3].trial(), "");
}

// Case V3: 20 MiB on stderr, one line of 6 MiB.
TEST(Life, LongLogIsCutWithAMarkerThatSaysHowMuch) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  std::string printed;
  for (int line = 0; printed.size() < (14U << 20); ++line)
    printed += fmt::format("line {}\n", line);
  printed += std::string(6 << 20, 'x') + "\nthe end\n";
  for (size_t at = 0; at < printed.size(); at += 1 << 20) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    event.mutable_log()->set_rank(0);
    event.mutable_log()->set_text(printed.substr(at, 1 << 20));
    world.Tell(w1, event);
  }
  std::string kept;
  world.Read([&](Connection& db) {
    EXPECT_THAT(LogRanks(db, 1, 1), ElementsAre(0));
    for (int64_t offset = 0;;) {
      const LogPiece piece = LoadLog(db, 1, 1, 0, offset);
      if (piece.next == offset) break;
      EXPECT_LT(piece.text.size(), 128U << 10);
      kept += piece.text;
      offset = piece.next;
    }
  });
  const size_t marker = kept.find("\n[");
  ASSERT_NE(marker, std::string::npos);
  const size_t end = kept.find("]\n", marker);
  ASSERT_NE(end, std::string::npos);
  const size_t left_out = std::stoul(kept.substr(marker + 2));
  EXPECT_THAT(kept.substr(marker, end - marker), HasSubstr("bytes of this log were left out"));
  const std::string tail = kept.substr(end + 2);
  EXPECT_EQ(kept.substr(0, marker), printed.substr(0, marker));
  EXPECT_EQ(tail, printed.substr(printed.size() - tail.size()));
  EXPECT_EQ(marker + left_out + tail.size(), printed.size());
  EXPECT_LE(kept.size(), static_cast<size_t>(kMaxLogBytes) + 100);
  EXPECT_GE(kept.size(), static_cast<size_t>(kMaxLogBytes) - (128 << 10));
}

// Case V3: 4,000,000 samples of 8 ranks.
TEST(Life, FourMillionSamplesComeBackWhole) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  constexpr int64_t kIterations = 500'000;
  constexpr int64_t kChunk = 12'500;
  constexpr int kRanks = 8;
  for (int64_t first = 0; first < kIterations; first += kChunk) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    v1::SampleChunk& chunk = *event.mutable_samples()->mutable_chunk();
    chunk.set_first(first);
    chunk.set_ranks(kRanks);
    for (int64_t i = first; i < first + kChunk; ++i) {
      chunk.add_marks(0);
      for (int rank = 0; rank < kRanks; ++rank)
        chunk.add_seconds(static_cast<double>(i * kRanks + rank));
    }
    ASSERT_LT(event.ByteSizeLong(), 1U << 20);
    world.Tell(w1, event);
  }
  int64_t next = 0;
  world.Read([&](Connection& db) {
    for (int64_t after = -1;;) {
      const auto chunks = LoadSamples(db, 1, 1, after, 4);
      if (chunks.empty()) break;
      for (const v1::SampleChunk& chunk : chunks) {
        for (const double seconds : chunk.seconds())
          ASSERT_EQ(seconds, static_cast<double>(next++));
        after = chunk.first();
      }
    }
    EXPECT_EQ(CountSamples(db, 1, 1), kIterations);
  });
  EXPECT_EQ(next, kIterations * kRanks);
}

}  // namespace
}  // namespace lcab::coordinator
