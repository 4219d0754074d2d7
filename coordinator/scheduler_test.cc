#include "coordinator/scheduler.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

WorkerView Worker(const std::string& id, int devices, std::set<std::string> kernels = {"tiled"},
                  const std::string& kind = "cpu", const std::string& model = "epyc") {
  WorkerView worker{.id = id};
  for (int i = 0; i < devices; ++i) {
    worker.devices.push_back({.id = fmt::format("{}:{}", kind, i), .kind = kind, .model = model});
  }
  worker.kernels[kind] = std::move(kernels);
  return worker;
}

WaitingCohort Cohort(int64_t id, int64_t job, int devices,
                     std::vector<std::string> kernels = {"tiled"},
                     const std::string& submitter = "ann") {
  WaitingCohort cohort{.id = id, .job = job, .submitter = submitter, .since = kNow};
  cohort.devices = devices;
  for (size_t i = 0; i < kernels.size(); ++i) {
    cohort.trials.push_back({static_cast<int>(i), kernels[i]});
  }
  return cohort;
}

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

// A model of a fleet over hours: workers come and go, jobs of several submitters arrive, runs take
// random times. What must always hold is checked at each decision; at the end everything has run.
class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {
    for (int w = 0; w < 4; ++w) {
      std::set<std::string> kernels = {"tiled"};
      if (w % 2 == 0) kernels.insert("ref");
      fleet_.push_back(
          Worker(fmt::format("w{}", w), 1 + w, kernels, "cpu", w == 3 ? "xeon" : "epyc"));
      up_.push_back(true);
    }
  }

  void Run() {
    int64_t next = 1;
    for (int step = 0; step < 4000; ++step) {
      now_ += absl::Seconds(1);
      if (step < 2000 && Chance(0.15)) Submit(next++);
      if (step < 3000 && Chance(0.01)) Flip(Pick(fleet_.size()));
      if (step == 3000) up_.assign(up_.size(), true);
      End();
      Decide();
    }
    EXPECT_THAT(waiting_, IsEmpty()) << "cohorts starved";
    EXPECT_EQ(finished_, submitted_) << "something was lost";
    // Reserving begins after 30 s, and what ran then ends within 20 s.
    EXPECT_LE(longest_gang_wait_, absl::Seconds(90));
  }

 private:
  struct Running {
    WaitingCohort cohort;
    Placement placement;
    absl::Time end;
  };

  static bool Holds(const Placement& placement, const WaitingCohort::Trial& trial) {
    return std::count(placement.trials.begin(), placement.trials.end(), trial.position) > 0;
  }
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  size_t Pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  void Submit(int64_t id) {
    // The fleet holds at most six devices of one model: w0 to w2, where w0 and w2 offer both
    // kernels.
    const bool gang = Chance(0.15);
    std::vector<std::string> kernels = {"tiled"};
    if (!gang && Chance(0.3)) kernels.push_back("ref");
    WaitingCohort cohort = Cohort(id, id, gang ? 6 : 1, kernels, fmt::format("user{}", Pick(3)));
    cohort.since = now_;
    waiting_.push_back(cohort);
    for (const auto& trial : cohort.trials) submitted_.emplace(id, trial.position);
  }

  // A worker leaves with all it runs, or comes back.
  void Flip(size_t w) {
    up_[w] = !up_[w];
    if (up_[w]) return;
    for (auto run = running_.begin(); run != running_.end();) {
      const bool hit =
          std::any_of(run->placement.devices.begin(), run->placement.devices.end(),
                      [&](const auto& device) { return device.worker == fleet_[w].id; });
      if (!hit) {
        ++run;
        continue;
      }
      // What is left of its cohort waits together with it.
      auto again = std::find_if(waiting_.begin(), waiting_.end(),
                                [&](const auto& c) { return c.id == run->cohort.id; });
      if (again == waiting_.end()) {
        waiting_.push_back(run->cohort);
        again = std::prev(waiting_.end());
        again->trials.clear();
      }
      for (const auto& trial : run->cohort.trials) again->trials.push_back(trial);
      std::sort(again->trials.begin(), again->trials.end(),
                [](const auto& a, const auto& b) { return a.position < b.position; });
      again->avoid.insert(fleet_[w].id);
      run = running_.erase(run);
    }
  }

  void End() {
    for (auto run = running_.begin(); run != running_.end();) {
      if (run->end > now_) {
        ++run;
        continue;
      }
      for (const int trial : run->placement.trials) {
        EXPECT_TRUE(finished_.emplace(run->cohort.id, trial).second) << "finished twice";
      }
      run = running_.erase(run);
    }
  }

  ScheduleState State() const {
    ScheduleState state{.waiting = waiting_};
    std::set<std::pair<std::string, std::string>> busy;
    for (const Running& run : running_) {
      state.running.push_back({.id = run.cohort.id,
                               .job = run.cohort.job,
                               .submitter = run.cohort.submitter,
                               .devices = run.cohort.devices});
      for (const auto& device : run.placement.devices) {
        EXPECT_TRUE(busy.emplace(device.worker, device.id).second) << "a device was given twice";
      }
    }
    for (size_t w = 0; w < fleet_.size(); ++w) {
      if (!up_[w]) continue;
      state.workers.push_back(fleet_[w]);
      for (DeviceView& device : state.workers.back().devices) {
        device.busy = busy.count({fleet_[w].id, device.id}) > 0;
      }
    }
    return state;
  }

  void Decide() {
    const ScheduleState state = State();
    const ScheduleDecisions decisions = Schedule(state, now_, {});
    std::set<std::pair<std::string, std::string>> given;
    for (const Placement& placement : decisions.placements) {
      const auto cohort = std::find_if(waiting_.begin(), waiting_.end(),
                                       [&](const auto& c) { return c.id == placement.cohort; });
      ASSERT_NE(cohort, waiting_.end()) << "placed twice";
      EXPECT_EQ(placement.devices.size(), static_cast<size_t>(cohort->devices));
      WaitingCohort placed = *cohort;
      std::erase_if(placed.trials, [&](const auto& trial) { return !Holds(placement, trial); });
      EXPECT_EQ(placement.trials.size(), placed.trials.size());
      EXPECT_FALSE(placed.trials.empty());
      std::set<std::string> models;
      std::set<std::string> closed;  // workers whose ranks have been passed
      std::string last;
      for (const auto& place : placement.devices) {
        const auto worker = std::find_if(state.workers.begin(), state.workers.end(),
                                         [&](const auto& w) { return w.id == place.worker; });
        ASSERT_NE(worker, state.workers.end()) << "placed on a worker that is away";
        const auto device = std::find_if(worker->devices.begin(), worker->devices.end(),
                                         [&](const auto& d) { return d.id == place.id; });
        ASSERT_NE(device, worker->devices.end());
        EXPECT_FALSE(device->busy);
        EXPECT_TRUE(given.emplace(place.worker, place.id).second) << "a device was given twice";
        models.insert(device->model);
        for (const auto& trial : placed.trials) {
          EXPECT_EQ(worker->kernels.at("cpu").count(trial.kernel), 1U);
        }
        if (place.worker != last) {
          EXPECT_TRUE(closed.insert(place.worker).second) << "a worker's ranks are apart";
          last = place.worker;
        }
      }
      EXPECT_EQ(models.size(), 1U);
      if (cohort->devices > 1) gang_waits_since_ = absl::InfiniteFuture();
      running_.push_back({placed, placement, now_ + absl::Seconds(1 + Pick(20))});
      std::erase_if(cohort->trials, [&](const auto& trial) { return Holds(placement, trial); });
      if (cohort->trials.empty()) waiting_.erase(cohort);
    }
    WatchGangs();
    std::set<int64_t> placed;
    for (const Placement& placement : decisions.placements) placed.insert(placement.cohort);
    for (const WaitingCohort& cohort : waiting_) {
      if (placed.count(cohort.id) > 0) continue;
      EXPECT_EQ(decisions.reasons.count(cohort.job), 1U) << "waits without a reason";
    }
  }

  // How long gangs wait, none of them being placed, while the fleet could hold one.
  void WatchGangs() {
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(),
                                   [](const auto& cohort) { return cohort.devices > 1; });
    if (!waits || !up_[0] || !up_[1] || !up_[2]) {
      gang_waits_since_ = absl::InfiniteFuture();
    } else if (gang_waits_since_ == absl::InfiniteFuture()) {
      gang_waits_since_ = now_;
    } else {
      longest_gang_wait_ = std::max(longest_gang_wait_, now_ - gang_waits_since_);
    }
  }

  std::mt19937 random_;
  absl::Time now_ = kNow;
  std::vector<WorkerView> fleet_;
  std::vector<bool> up_;
  std::vector<WaitingCohort> waiting_;
  std::vector<Running> running_;
  std::set<std::pair<int64_t, int>> submitted_;
  std::set<std::pair<int64_t, int>> finished_;
  absl::Time gang_waits_since_ = absl::InfiniteFuture();
  absl::Duration longest_gang_wait_;
};

TEST(Scheduler, SimulatedFleetsRunEverythingOnceWithoutStarvingGangs) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Simulation(seed).Run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Scheduler, GangGetsItsTurnUnderAnEndlessStreamOfSmallJobs) {
  ScheduleState state{.workers = {Worker("w1", 4)}};
  state.waiting.push_back(Cohort(1, 1, 4, {"tiled"}, "bob"));
  std::map<int64_t, absl::Time> ends;  // of small cohorts that run
  std::map<int64_t, std::string> where;
  absl::Time now = kNow;
  for (int64_t id = 2; id < 400; ++id) {
    now += absl::Seconds(1);
    state.waiting.push_back(Cohort(id, id, 1, {"tiled"}, "ann"));
    std::set<std::string> busy;
    state.running.clear();
    for (const auto& [small, end] : ends) {
      if (end <= now) continue;
      busy.insert(where[small]);
      state.running.push_back({.id = small, .job = small, .submitter = "ann", .devices = 1});
    }
    for (DeviceView& device : state.workers[0].devices) device.busy = busy.count(device.id) > 0;
    for (const Placement& placement : Schedule(state, now, {}).placements) {
      if (placement.cohort == 1) {
        EXPECT_LE(now - kNow, absl::Seconds(60));
        return;
      }
      ends[placement.cohort] = now + absl::Seconds(10);
      where[placement.cohort] = placement.devices[0].id;
      state.waiting.erase(std::find_if(state.waiting.begin(), state.waiting.end(),
                                       [&](const auto& c) { return c.id == placement.cohort; }));
    }
  }
  FAIL() << "the gang never ran";
}

}  // namespace
}  // namespace lcab::coordinator
