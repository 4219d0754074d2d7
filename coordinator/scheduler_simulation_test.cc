// The scheduler over hours of a model of a fleet.

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/scheduler.h"
#include "coordinator/test_schedule.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::IsEmpty;

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
