// Everything that can happen, in random order: workers that die, come back or restart, runners that
// are killed, people who cancel and retry, and a coordinator that is killed between any two
// changes. What must always hold is checked as it goes; at the end every job has ended and no
// result was lost.

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

class Chaos {
 public:
  explicit Chaos(unsigned seed) : random_(seed) {
    for (int w = 0; w < 3; ++w) world_.AddWorker(fmt::format("w{}", w), 2);
    for (auto& [id, worker] : world_.workers()) Come(worker);
  }

  void Run() {
    for (int step = 0; step < 400 && !testing::Test::HasFailure(); ++step) {
      if (step < 120 && Chance(0.35)) Submit();
      if (Chance(0.03)) world_.Restart();  // the streams break with it
      if (Chance(0.02) && !jobs_.empty()) (void)world_.Cancel(jobs_[Pick(jobs_.size())]);
      if (Chance(0.02) && !jobs_.empty()) (void)world_.Retry(jobs_[Pick(jobs_.size())]);
      world_.Advance(absl::Seconds(2));
      for (auto& [id, worker] : world_.workers()) Live(worker, /*calm=*/false);
      world_.Decide();
      world_.CheckInvariants();
    }
    for (int step = 0; step < 600 && !testing::Test::HasFailure() && !AllEnded(); ++step) {
      world_.Advance(absl::Seconds(2));
      for (auto& [id, worker] : world_.workers()) Live(worker, /*calm=*/true);
      world_.Decide();
    }
    world_.CheckInvariants();
    EXPECT_TRUE(AllEnded()) << "jobs never ended";
    CheckResults();
  }

 private:
  // What a worker's machine holds: assignments that run, and events that are not acknowledged.
  struct Machine {
    std::map<std::string, v1::Assign> running;
    std::vector<v1::AssignmentEvent> unacknowledged;
    bool up = true;
  };

  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  size_t Pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  void Submit() {
    const int ranks = Chance(0.2) ? 4 : Chance(0.3) ? 2 : 1;
    jobs_.push_back(world_.Submit(MakeExpansion({{"tiled", "ref", "tiled"}, {"ref"}}, ranks),
                                  Chance(0.5) ? "ann" : "bob"));
  }

  std::vector<std::string> Running(const std::string& id) {
    std::vector<std::string> names;
    for (const auto& [name, assign] : machines_[id].running) names.push_back(name);
    return names;
  }

  // Connects: hello, what was not acknowledged, heartbeat.
  void Come(World::FakeWorker& worker) {
    Machine& machine = machines_[worker.id];
    for (const std::string& name : world_.Hello(worker, Running(worker.id))) {
      const auto found = machine.running.find(name);
      if (found != machine.running.end()) End(worker, found->second, "abandoned");
    }
    for (const v1::AssignmentEvent& event : std::exchange(machine.unacknowledged, {})) {
      world_.Tell(worker, event);
    }
    world_.Beat(worker, Running(worker.id));
    machine.up = true;
  }

  // Sends an event, or keeps it while the stream is broken.
  void Tell(World::FakeWorker& worker, v1::AssignmentEvent event) {
    event.set_incarnation(worker.incarnation);
    event.set_sequence(++worker.sequence);
    if (event.has_trial_ended() && event.trial_ended().result().outcome() == v1::OUTCOME_OK) {
      completed_.insert({event.assignment(), event.trial_ended().trial()});
    }
    if (world_.IsConnected(worker.id)) {
      world_.Tell(worker, event);
      // The acknowledgement may get lost: it is sent again then.
      if (!Chance(0.1)) return;
    }
    machines_[worker.id].unacknowledged.push_back(event);
  }

  void End(World::FakeWorker& worker, const v1::Assign& assign, const std::string& reason) {
    v1::AssignmentEvent over = World::Over(
        assign, reason, reason.empty() ? v1::FAULT_UNSPECIFIED : v1::FAULT_INFRASTRUCTURE);
    machines_[worker.id].running.erase(assign.assignment());  // which may hold `assign`
    Tell(worker, std::move(over));
  }

  void Live(World::FakeWorker& worker, bool calm) {
    Machine& machine = machines_[worker.id];
    if (!calm && machine.up && Chance(0.02)) {
      // The daemon is killed with its runners; terminal events are on its disk.
      world_.Disconnect(worker.id);
      machine.running.clear();
      machine.up = false;
      worker.incarnation += "+";
      worker.sequence = 0;
      return;
    }
    if (!machine.up && !calm && !Chance(0.1)) return;
    if (machine.up && !calm && Chance(0.03)) world_.Disconnect(worker.id);
    if (!world_.IsConnected(worker.id)) {
      if (calm || Chance(0.1)) Come(worker);
      if (!world_.IsConnected(worker.id)) return;
    }
    world_.Hear(worker.id);
    for (const v1::ToWorker& message : world_.Inbox(worker.id)) {
      if (message.has_assign()) {
        machine.running.emplace(message.assign().assignment(), message.assign());
      } else if (message.has_cancel()) {
        const auto found = machine.running.find(message.cancel().assignment());
        if (found != machine.running.end()) End(worker, found->second, message.cancel().reason());
      }
    }
    const auto running = machine.running;
    for (const auto& [name, assign] : running) Work(worker, assign, calm);
  }

  void Work(World::FakeWorker& worker, const v1::Assign& assign, bool calm) {
    if (!calm && Chance(0.5)) return;
    const bool leads = assign.placements(0).rank() == 0;
    if (!calm && Chance(0.1)) {  // a runner of ours is killed
      const int trial = assign.trials(static_cast<int>(Pick(assign.trials_size())));
      Tell(worker, World::Ended(assign, trial,
                                MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, "killed",
                                           assign.placements(0).rank())));
      End(worker, assign, "a runner was killed");
      return;
    }
    if (!leads) {
      // Ends when rank 0's worker is done, as its ranks do.
      for (const auto& [id, machine] : machines_) {
        if (id != worker.id && machine.running.count(assign.assignment()) > 0) return;
      }
      End(worker, assign, "");
      return;
    }
    for (const int trial : assign.trials()) {
      if (completed_.count({assign.assignment(), trial}) > 0) continue;
      Tell(worker, World::Started(assign, trial));
      Tell(worker, World::Ended(assign, trial, MakeResult(v1::OUTCOME_OK)));
      if (!calm && Chance(0.5)) return;
    }
    End(worker, assign, "");
  }

  bool AllEnded() {
    bool all = true;
    world_.Read([&](Connection& db) {
      all = db.QueryInt("SELECT COUNT(*) FROM jobs WHERE state NOT IN (3, 4, 5)") == 0;
    });
    return all;
  }

  // A trial that any attempt completed well is `ok`, unless it was cancelled first; no trial was
  // tried more often than allowed; no job is cancelled that holds only results.
  void CheckResults() {
    world_.Read([&](Connection& db) {
      EXPECT_EQ(db.QueryInt("SELECT COUNT(*) FROM trials WHERE counted > 3"), 0);
      EXPECT_EQ(db.QueryInt("SELECT COUNT(*) FROM jobs WHERE state = 5 AND cancelled = 0"), 0);
      EXPECT_EQ(
          db.QueryInt("SELECT COUNT(*) FROM jobs WHERE total <> (SELECT COUNT(*) FROM results JOIN "
                      "trials ON trials.id = trial_id WHERE job_id = jobs.id)"),
          0)
          << "a trial has no result, or two";
      for (const auto& [assignment, position] : completed_) {
        Rows rows = db.Query(
            "SELECT trials.state, trials.outcome FROM assignments JOIN trials ON trials.cohort_id "
            "= "
            "assignments.cohort_id AND position = ? WHERE name = ?",
            {position, assignment});
        ASSERT_TRUE(rows.Next());
        const auto state = static_cast<TrialState>(rows.Int(0));
        EXPECT_TRUE(state == TrialState::kCancelled || rows.Int(1) == v1::OUTCOME_OK)
            << assignment << " completed trial " << position << " well and it is " << Name(state);
      }
    });
  }

  std::mt19937 random_;
  World world_;
  std::map<std::string, Machine> machines_;
  std::vector<int64_t> jobs_;
  std::set<std::pair<std::string, int>> completed_;
};

TEST(Chaos, EveryJobEndsOnceAndNoResultIsLost) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Chaos(seed).Run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace lcab::coordinator
