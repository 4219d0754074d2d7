#include "coordinator/scheduler.h"

#include <set>
#include <string>
#include <vector>

#include "coordinator/test_schedule.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// "cohort: worker/device worker/device (trials)".
std::vector<std::string> Show(const ScheduleDecisions& decisions) {
  std::vector<std::string> shown;
  for (const Placement& placement : decisions.placements) {
    std::string text = fmt::format("{}:", placement.cohort);
    for (const Placement::Device& device : placement.devices) {
      text += fmt::format(" {}/{}", device.worker, device.id);
    }
    text += " (";
    for (const int trial : placement.trials) text += fmt::format("{}", trial);
    shown.push_back(text + ")");
  }
  return shown;
}

std::vector<std::string> Placements(const ScheduleState& state) {
  return Show(Schedule(state, kNow, {}));
}

std::string ReasonOfJob(const ScheduleState& state, int64_t job) {
  const ScheduleDecisions decisions = Schedule(state, kNow, {});
  const auto found = decisions.reasons.find(job);
  return found == decisions.reasons.end() ? "" : found->second;
}

TEST(Scheduler, NothingIsDecidedForNothing) {
  const ScheduleDecisions decisions = Schedule({}, kNow, {});
  EXPECT_THAT(decisions.placements, IsEmpty());
  EXPECT_THAT(decisions.lost, IsEmpty());
  EXPECT_THAT(decisions.reasons, IsEmpty());
}

TEST(Scheduler, CohortGoesToFreeDevicesOfAWorkerThatOffersItsKernels) {
  EXPECT_THAT(
      Placements({.workers = {Worker("w1", 1, {"other"}), Worker("w2", 1, {"tiled", "ref"})},
                  .waiting = {Cohort(7, 1, 1, {"tiled", "ref"})}}),
      ElementsAre("7: w2/cpu:0 (01)"));
}

TEST(Scheduler, BusyDevicesAreLeftAlone) {
  ScheduleState state{.workers = {Worker("w1", 2)}, .waiting = {Cohort(7, 1, 1), Cohort(8, 1, 1)}};
  state.workers[0].devices[0].busy = true;
  EXPECT_THAT(Placements(state), ElementsAre("7: w1/cpu:1 (0)"));
}

TEST(Scheduler, GangStaysOnOneWorkerWhereItFitsAndLeavesTheLargerHolesFree) {
  EXPECT_THAT(Placements({.workers = {Worker("w1", 4), Worker("w2", 2), Worker("w3", 1)},
                          .waiting = {Cohort(7, 1, 2)}}),
              ElementsAre("7: w2/cpu:0 w2/cpu:1 (0)"));
}

TEST(Scheduler, GangThatFitsOnNoWorkerIsSpreadEvenlyWithNeighbouringRanksTogether) {
  EXPECT_THAT(
      Placements({.workers = {Worker("w1", 3), Worker("w2", 3)}, .waiting = {Cohort(7, 1, 4)}}),
      ElementsAre("7: w1/cpu:0 w1/cpu:1 w2/cpu:0 w2/cpu:1 (0)"));
  EXPECT_THAT(Placements({.workers = {Worker("w1", 1), Worker("w2", 4), Worker("w3", 3)},
                          .waiting = {Cohort(7, 1, 7)}}),
              ElementsAre("7: w2/cpu:0 w2/cpu:1 w2/cpu:2 w2/cpu:3 w3/cpu:0 w3/cpu:1 w3/cpu:2 (0)"));
}

TEST(Scheduler, GangIsNeverMixedFromDifferentModels) {
  const ScheduleState state{.workers = {Worker("w1", 1, {"tiled"}, "cpu", "epyc"),
                                        Worker("w2", 1, {"tiled"}, "cpu", "xeon")},
                            .waiting = {Cohort(7, 1, 2)}};
  EXPECT_THAT(Placements(state), IsEmpty());
  EXPECT_THAT(ReasonOfJob(state, 1), HasSubstr("needs 2 devices of one model"));
}

TEST(Scheduler, CohortWhoseKernelsNoWorkerOffersTogetherIsSplit) {
  WorkerView both = Worker("w1", 1, {"tiled"});
  both.devices.push_back({.id = "cuda:0", .kind = "cuda", .model = "h200"});
  both.kernels["cuda"] = {"cudnn", "flash"};
  EXPECT_THAT(
      Placements({.workers = {both}, .waiting = {Cohort(7, 1, 1, {"tiled", "cudnn", "flash"})}}),
      ElementsAre("7: w1/cuda:0 (12)"));
}

TEST(Scheduler, CohortStaysTogetherWhenAWorkerThatOffersAllIsOnlyBusy) {
  ScheduleState state{.workers = {Worker("w1", 1, {"tiled"}), Worker("w2", 1, {"tiled", "ref"})},
                      .waiting = {Cohort(7, 1, 1, {"tiled", "ref"})}};
  state.workers[1].devices[0].busy = true;
  EXPECT_THAT(Placements(state), IsEmpty());
}

TEST(Scheduler, DrainingWorkersGetNothingNew) {
  ScheduleState state{.workers = {Worker("w1", 1), Worker("w2", 1)}, .waiting = {Cohort(7, 1, 1)}};
  state.workers[0].draining = true;
  EXPECT_THAT(Placements(state), ElementsAre("7: w2/cpu:0 (0)"));
  state.workers[1].draining = true;
  EXPECT_THAT(Placements(state), IsEmpty());
  EXPECT_THAT(ReasonOfJob(state, 1), HasSubstr("draining workers (w1, w2)"));
}

TEST(Scheduler, RetryPrefersAnotherWorkerEvenIfThatOneIsBusyNow) {
  ScheduleState state{.workers = {Worker("w1", 1), Worker("w2", 1)}, .waiting = {Cohort(7, 1, 1)}};
  state.waiting[0].avoid = {"w1"};
  EXPECT_THAT(Placements(state), ElementsAre("7: w2/cpu:0 (0)"));
  state.workers[1].devices[0].busy = true;
  EXPECT_THAT(Placements(state), IsEmpty());
  EXPECT_THAT(ReasonOfJob(state, 1), HasSubstr("besides w1"));
}

TEST(Scheduler, RetryReturnsToTheSameWorkerWhereNoOtherCanEverRunIt) {
  ScheduleState state{.workers = {Worker("w1", 1), Worker("w2", 1, {"other"})},
                      .waiting = {Cohort(7, 1, 1)}};
  state.waiting[0].avoid = {"w1"};
  EXPECT_THAT(Placements(state), ElementsAre("7: w1/cpu:0 (0)"));
}

TEST(Scheduler, SubmitterWithFewerDevicesInUseGoesFirst) {
  ScheduleState state{
      .workers = {Worker("w1", 2)},
      .waiting = {Cohort(1, 1, 1, {"tiled"}, "ann"), Cohort(2, 1, 1, {"tiled"}, "ann"),
                  Cohort(3, 2, 1, {"tiled"}, "bob")}};
  EXPECT_THAT(Placements(state), ElementsAre("1: w1/cpu:0 (0)", "3: w1/cpu:1 (0)"));
  state.running = {{.id = 9, .job = 5, .submitter = "ann", .devices = 1}};
  EXPECT_THAT(Placements(state), ElementsAre("3: w1/cpu:0 (0)", "1: w1/cpu:1 (0)"));
}

TEST(Scheduler, JobsOfOneSubmitterShareToo) {
  EXPECT_THAT(
      Placements({.workers = {Worker("w1", 3)},
                  .waiting = {Cohort(1, 1, 1), Cohort(2, 1, 1), Cohort(3, 1, 1), Cohort(4, 2, 1)}}),
      ElementsAre("1: w1/cpu:0 (0)", "4: w1/cpu:1 (0)", "2: w1/cpu:2 (0)"));
}

TEST(Scheduler, SmallCohortPassesAGangThatHasNotWaitedLong) {
  ScheduleState state{.workers = {Worker("w1", 2)}, .waiting = {Cohort(1, 1, 2), Cohort(2, 2, 1)}};
  state.workers[0].devices[0].busy = true;
  EXPECT_THAT(Placements(state), ElementsAre("2: w1/cpu:1 (0)"));
}

TEST(Scheduler, FreeDevicesAreKeptForAGangThatHasWaited) {
  ScheduleState state{.workers = {Worker("w1", 2)}, .waiting = {Cohort(1, 1, 2), Cohort(2, 2, 1)}};
  state.workers[0].devices[0].busy = true;
  state.waiting[0].since = kNow - absl::Minutes(1);
  EXPECT_THAT(Placements(state), IsEmpty());
  EXPECT_THAT(ReasonOfJob(state, 1), HasSubstr("kept for it"));
  state.workers[0].devices[0].busy = false;
  EXPECT_THAT(Placements(state), ElementsAre("1: w1/cpu:0 w1/cpu:1 (0)"));
}

TEST(Scheduler, DevicesBeyondThoseThatAGangNeedsAreNotKeptForIt) {
  ScheduleState state{.workers = {Worker("w1", 3), Worker("w2", 1)},
                      .waiting = {Cohort(1, 1, 3), Cohort(2, 2, 1), Cohort(3, 3, 1)}};
  state.workers[0].devices[0].busy = true;
  state.workers[0].devices[1].busy = true;
  state.waiting[0].since = kNow - absl::Minutes(1);
  EXPECT_THAT(Placements(state), ElementsAre("2: w2/cpu:0 (0)"));
}

TEST(Scheduler, ReasonsSayWhatIsMissing) {
  EXPECT_THAT(ReasonOfJob({.waiting = {Cohort(1, 1, 1)}}, 1), HasSubstr("no worker is connected"));
  EXPECT_THAT(
      ReasonOfJob({.workers = {Worker("w1", 1)}, .waiting = {Cohort(1, 1, 1, {"cudnn"})}}, 1),
      HasSubstr("no connected worker offers kernel cudnn"));
  EXPECT_THAT(
      ReasonOfJob({.workers = {Worker("w1", 2)}, .waiting = {Cohort(1, 1, 4)}}, 1),
      HasSubstr(
          "needs 4 devices of one model whose workers offer its kernels; there are at most 2"));
  ScheduleState full{.workers = {Worker("w1", 1)}, .waiting = {Cohort(1, 1, 1)}};
  full.workers[0].devices[0].busy = true;
  EXPECT_THAT(ReasonOfJob(full, 1), HasSubstr("needs 1 device; 0 of 1 are free"));
  EXPECT_EQ(ReasonOfJob({.workers = {Worker("w1", 1)}, .waiting = {Cohort(1, 1, 1)}}, 1), "");
}

TEST(Scheduler, EveryWaitingJobOfAFullFleetHasAReason) {
  ScheduleState state{.workers = {Worker("w1", 1)}};
  for (int job = 1; job <= 50; ++job) state.waiting.push_back(Cohort(job, job, 1));
  const ScheduleDecisions decisions = Schedule(state, kNow, {});
  EXPECT_EQ(decisions.placements.size(), 1U);
  EXPECT_EQ(decisions.reasons.size(), 49U);
}

TEST(Scheduler, WorkerIsLostOnlyAfterTheTimeout) {
  const ScheduleState state{
      .heard = {{"w1", kNow - absl::Seconds(30)}, {"w2", kNow - absl::Seconds(31)}}};
  EXPECT_THAT(Schedule(state, kNow, {.heartbeat_timeout = absl::Seconds(30)}).lost,
              ElementsAre("w2"));
}

TEST(Scheduler, StoppingAssignmentsAreClosedInTimeAndOverdueOnesStopped) {
  const ScheduleState state{
      .running = {{.id = 1, .stopping = true, .stop_by = kNow},
                  {.id = 2, .stopping = true, .stop_by = kNow + absl::Seconds(1)},
                  {.id = 3, .stopping = true, .overdue = kNow},
                  {.id = 6, .stopping = true, .overdue = kNow + absl::Seconds(1)},
                  {.id = 4, .overdue = kNow},
                  {.id = 5, .overdue = kNow + absl::Seconds(1)}}};
  const ScheduleDecisions decisions = Schedule(state, kNow, {});
  EXPECT_THAT(decisions.close, UnorderedElementsAre(1));
  EXPECT_THAT(decisions.stop, UnorderedElementsAre(4));
  EXPECT_THAT(decisions.give_up, UnorderedElementsAre(3));
}

}  // namespace
}  // namespace lcab::coordinator
