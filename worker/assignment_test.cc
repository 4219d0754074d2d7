// An assignment with real processes: lcab-fake-runner does what its kernels' names say.

#include "worker/assignment.h"

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/proto_time.h"

namespace lcab::worker {
namespace {

using testing::HasSubstr;

std::string FakeRunner() { return std::string(std::getenv("LCAB_BIN_DIR")) + "/lcab-fake-runner"; }

class Recorder : public AssignmentListener {
 public:
  void OnEvent(v1::AssignmentEvent event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  void OnRelay(v1::FromWorker message) override {
    const std::lock_guard lock(mutex_);
    relayed_.push_back(std::move(message));
    changed_.notify_all();
  }
  void OnRunnerDeath(const Verdict&) override {
    const std::lock_guard lock(mutex_);
    ++deaths_;
  }

  // Waits for an event that the predicate takes.
  template <typename Predicate>
  bool WaitFor(const Predicate& predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, absl::ToChronoTime(absl::Now() + absl::Seconds(30)), [&] {
      for (const v1::AssignmentEvent& event : events_) {
        if (predicate(event)) return true;
      }
      return false;
    });
  }
  bool WaitForEnd() {
    return WaitFor([](const v1::AssignmentEvent& event) { return event.has_ended(); });
  }
  bool WaitForStart(int trial) {
    return WaitFor([trial](const v1::AssignmentEvent& event) {
      return event.has_started() && event.started().trial() == trial;
    });
  }

  std::vector<v1::AssignmentEvent> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<v1::AssignmentEvent::TrialEnded> Results() {
    std::vector<v1::AssignmentEvent::TrialEnded> results;
    for (const v1::AssignmentEvent& event : events()) {
      if (event.has_trial_ended()) results.push_back(event.trial_ended());
    }
    return results;
  }
  v1::AssignmentEvent::Ended End() { return events().back().ended(); }
  std::string Log(int trial, int rank) {
    std::string text;
    for (const v1::AssignmentEvent& event : events()) {
      if (event.has_log() && event.log().trial() == trial && event.log().rank() == rank) {
        text += event.log().text();
      }
    }
    return text;
  }
  int deaths() {
    const std::lock_guard lock(mutex_);
    return deaths_;
  }
  std::vector<v1::FromWorker> relayed() {
    const std::lock_guard lock(mutex_);
    return relayed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::AssignmentEvent> events_;
  std::vector<v1::FromWorker> relayed_;
  int deaths_ = 0;
};

class AssignmentTest : public testing::Test {
 protected:
  AssignmentTest() {
    options_.worker = "workers/w1";
    for (int n = 0; n < 4; ++n)
      options_.slots.push_back({.id = fmt::format("cpu:{}", n), .index = n});
    options_.hold = absl::Seconds(1);
  }

  // One trial a kernel, `ranks` ranks, all on this worker.
  v1::Assign MakeAssign(const std::vector<std::string>& kernels, int ranks = 1) {
    v1::Assign assign;
    assign.set_assignment(fmt::format("assignments/{}", ++assignments_));
    assign.mutable_cohort()->set_ranks(ranks);
    assign.mutable_cohort()->set_ranks_per_device(1);
    for (const std::string& kernel : kernels) {
      v1::TrialSpec& spec = *assign.mutable_cohort()->add_trials();
      spec.mutable_kernel()->set_name(kernel);
      *spec.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(60));
      assign.add_trials(assign.trials_size());
      assign.add_attempts(1);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      v1::Assign::Placement& placement = *assign.add_placements();
      placement.set_rank(rank);
      placement.set_device(fmt::format("cpu:{}", rank));
    }
    *assign.mutable_grace() = ToProto(absl::Milliseconds(500));
    return assign;
  }
  // The kernel's fault happens on this rank, the others wait for it.
  static v1::Assign OnRank(v1::Assign assign, int rank) {
    for (v1::TrialSpec& spec : *assign.mutable_cohort()->mutable_trials()) {
      (*spec.mutable_kernel()->mutable_options())["rank"].set_integer_value(rank);
    }
    return assign;
  }

  void Start(const v1::Assign& assign) {
    recorder_ = std::make_unique<Recorder>();
    assignment_ = std::make_unique<Assignment>(assign, options_, pool_, leases_, *recorder_);
  }
  // Runs to its end and checks that no process is left but those that are kept warm.
  void RunToEnd(const v1::Assign& assign) {
    Start(assign);
    ASSERT_TRUE(recorder_->WaitForEnd());
    assignment_.reset();
    std::set<int> left;
    for (const auto& ended : recorder_->Results()) {
      for (const v1::RankResult& rank : ended.result().ranks()) {
        if (kill(rank.pid(), 0) == 0) left.insert(rank.pid());
      }
    }
    EXPECT_LE(static_cast<int>(left.size()), pool_.idle()) << "processes are left";
    EXPECT_EQ(Count([](const auto& event) { return event.has_ended(); }), 1);
    EXPECT_TRUE(recorder_->events().back().has_ended());
  }
  template <typename Predicate>
  int Count(const Predicate& predicate) {
    int count = 0;
    for (const v1::AssignmentEvent& event : recorder_->events()) count += predicate(event) ? 1 : 0;
    return count;
  }

  AssignmentOptions options_;
  RunnerPool pool_{{.program = FakeRunner()}};
  DeviceLeases leases_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Assignment> assignment_;
  int assignments_ = 0;
};

TEST_F(AssignmentTest, EveryTrialGivesOneResultAndRunnersAreKeptWarm) {
  RunToEnd(MakeAssign({"ok", "ok", "ok"}, 2));
  const auto results = recorder_->Results();
  ASSERT_EQ(results.size(), 3u);
  for (int trial = 0; trial < 3; ++trial) {
    EXPECT_EQ(results[trial].trial(), trial);
    EXPECT_EQ(results[trial].result().outcome(), v1::OUTCOME_OK);
    EXPECT_EQ(results[trial].iterations(), 5);
  }
  EXPECT_EQ(recorder_->End().reason(), "");
  EXPECT_EQ(recorder_->End().fault(), v1::FAULT_UNSPECIFIED);
  EXPECT_EQ(pool_.idle(), 2);
  RunToEnd(MakeAssign({"ok"}, 2));
  EXPECT_EQ(pool_.started(), 2);
}

struct FaultCase {
  std::string kernel;
  v1::Outcome outcome;
  v1::Fault fault;
  std::string reason;
};
class FaultTest : public AssignmentTest, public testing::WithParamInterface<FaultCase> {};

TEST_P(FaultTest, EndsItsTrialWithTheRankNamedAndTheAttemptSoon) {
  options_.slots[1].memory_limit_bytes = 1 << 30;
  const absl::Time start = absl::Now();
  RunToEnd(OnRank(MakeAssign({GetParam().kernel, "ok"}, 4), 1));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  const auto results = recorder_->Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].trial(), 0);
  EXPECT_EQ(results[0].result().outcome(), GetParam().outcome) << results[0].DebugString();
  EXPECT_EQ(results[0].result().fault(), GetParam().fault);
  EXPECT_EQ(results[0].result().rank(), 1);
  EXPECT_THAT(results[0].result().reason(), HasSubstr("rank 1"));
  EXPECT_THAT(results[0].result().reason(), HasSubstr(GetParam().reason));
  EXPECT_EQ(recorder_->End().fault(), GetParam().fault);
  EXPECT_EQ(recorder_->deaths(), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Deaths, FaultTest,
    testing::Values(
        FaultCase{"segv", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "SIGSEGV"},
        FaultCase{"abort", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "about to end by abort"},
        FaultCase{"exit", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "exited with code 3"},
        FaultCase{"kill", v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, "SIGKILL"},
        FaultCase{"bad_alloc", v1::OUTCOME_OUT_OF_MEMORY, v1::FAULT_LIMIT, "an allocation failed"},
        FaultCase{"close", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "closed its channel"},
        FaultCase{"garbage", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "channel"}),
    [](const auto& test) { return test.param.kernel; });

TEST_F(AssignmentTest, ATrialThatHangsTimesOutAndTheNextAssignmentRuns) {
  for (const std::string kernel : {"hang", "deaf"}) {
    v1::Assign assign = OnRank(MakeAssign({kernel, "ok"}, 2), 1);
    *assign.mutable_cohort()->mutable_trials(0)->mutable_measure()->mutable_timeout() =
        ToProto(absl::Milliseconds(300));
    RunToEnd(assign);
    const auto results = recorder_->Results();
    ASSERT_EQ(results.size(), 1u) << kernel;
    EXPECT_EQ(results[0].result().outcome(), v1::OUTCOME_TIMED_OUT);
    EXPECT_EQ(results[0].result().fault(), v1::FAULT_LIMIT);
    EXPECT_THAT(results[0].result().reason(), HasSubstr("limit of 300ms"));
    RunToEnd(MakeAssign({"ok"}, 2));
    EXPECT_EQ(recorder_->Results().size(), 1u);
  }
}

TEST_F(AssignmentTest, ARanksOwnFailureIsItsTrialsResultAndTheRestGoesOn) {
  RunToEnd(OnRank(MakeAssign({"fail", "ok"}, 2), 1));
  const auto results = recorder_->Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].result().outcome(), v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(results[0].result().rank(), 1);
  EXPECT_EQ(results[1].result().outcome(), v1::OUTCOME_OK);
}

TEST_F(AssignmentTest, ALostPeerIsBelievedOnlyWhenNobodyDied) {
  RunToEnd(OnRank(MakeAssign({"lost_peer"}), 0));
  const auto results = recorder_->Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].result().fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_EQ(results[0].result().reason(), "lost rank 1");
}

TEST_F(AssignmentTest, ARunnerThatLeavesWithoutAResultIsReported) {
  RunToEnd(MakeAssign({"leave"}));
  const auto results = recorder_->Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].result().outcome(), v1::OUTCOME_CRASHED);
  EXPECT_EQ(results[0].result().fault(), v1::FAULT_INFRASTRUCTURE);
}

TEST_F(AssignmentTest, ARunnerThatLeavesAfterAHangLeavesTheOtherTrialsWithoutAResult) {
  RunToEnd(MakeAssign({"give_up", "ok"}));
  const auto results = recorder_->Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].trial(), 0);
  EXPECT_EQ(results[0].result().outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(recorder_->End().fault(), v1::FAULT_KERNEL);
  EXPECT_THAT(recorder_->End().reason(), HasSubstr("left after trial 0"));
}

// Case V3: 20 MiB on stderr, of which 6 MiB are one line.
TEST_F(AssignmentTest, AFloodOfOutputIsCutWithAMarkerThatSaysHowMuch) {
  RunToEnd(MakeAssign({"print", "ok"}));
  ASSERT_EQ(recorder_->Results().size(), 2u);
  EXPECT_EQ(recorder_->Results()[0].result().outcome(), v1::OUTCOME_OK);
  const std::string log = recorder_->Log(0, 0);
  const int64_t cut = (20 << 20) - static_cast<int64_t>(BoundedLog::kHeadBytes) -
                      static_cast<int64_t>(BoundedLog::kTailBytes);
  const std::string marker = fmt::format("\n[... {} bytes were cut here ...]\n", cut);
  EXPECT_EQ(log.size(), BoundedLog::kHeadBytes + BoundedLog::kTailBytes + marker.size());
  EXPECT_THAT(log, HasSubstr(marker));
  EXPECT_EQ(log.substr(0, 8), "000000 .");
  EXPECT_EQ(log.substr(log.size() - 3), "xx\n");
  EXPECT_EQ(recorder_->Log(1, 0), "");
  EXPECT_LT(Count([](const auto& event) { return event.has_log(); }), 40);
}

TEST_F(AssignmentTest, AnAbortEndsItWithoutResultsForOpenTrials) {
  for (const std::string kernel : {"hang", "deaf"}) {
    Start(MakeAssign({kernel, "ok"}, 2));
    ASSERT_TRUE(recorder_->WaitForStart(0));
    assignment_->Abort("somebody cancelled it");
    ASSERT_TRUE(recorder_->WaitForEnd());
    EXPECT_EQ(recorder_->End().reason(), "somebody cancelled it");
    EXPECT_EQ(recorder_->End().fault(), v1::FAULT_UNSPECIFIED);
    EXPECT_TRUE(recorder_->Results().empty());
    EXPECT_EQ(recorder_->deaths(), 0);
    assignment_.reset();
  }
}

TEST_F(AssignmentTest, AnAbortBeforeItsDevicesAreFreeStartsNoRunner) {
  ASSERT_TRUE(
      leases_.Acquire({"cpu:0"}, "other", absl::Now() + absl::Seconds(1), [] { return false; })
          .ok());
  Start(MakeAssign({"ok"}));
  assignment_->Abort("cancelled while queued");
  ASSERT_TRUE(recorder_->WaitForEnd());
  EXPECT_EQ(recorder_->End().reason(), "cancelled while queued");
  EXPECT_EQ(pool_.started(), 0);
}

TEST_F(AssignmentTest, ARunnerThatCannotStartEndsItAsInfrastructure) {
  RunnerPool broken({.program = "/no/such/runner"});
  recorder_ = std::make_unique<Recorder>();
  const Assignment assignment(MakeAssign({"ok"}), options_, broken, leases_, *recorder_);
  ASSERT_TRUE(recorder_->WaitForEnd());
  EXPECT_EQ(recorder_->End().fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_THAT(recorder_->End().reason(), HasSubstr("/no/such/runner"));
}

TEST_F(AssignmentTest, NonsenseIsRefusedInWords) {
  v1::Assign unknown_device = MakeAssign({"ok"});
  unknown_device.mutable_placements(0)->set_device("cpu:99");
  v1::Assign bad_rank = MakeAssign({"ok"});
  bad_rank.mutable_placements(0)->set_rank(1);
  v1::Assign bad_trial = MakeAssign({"ok"});
  bad_trial.set_trials(0, 5);
  v1::Assign no_ranks = MakeAssign({"ok"});
  no_ranks.clear_placements();
  v1::Assign no_trials = MakeAssign({"ok"});
  no_trials.clear_trials();
  for (const v1::Assign& assign : {unknown_device, bad_rank, bad_trial, no_ranks, no_trials}) {
    Start(assign);
    ASSERT_TRUE(recorder_->WaitForEnd());
    EXPECT_NE(recorder_->End().reason(), "");
    EXPECT_EQ(recorder_->End().fault(), v1::FAULT_INFRASTRUCTURE);
    assignment_.reset();
  }
}

TEST_F(AssignmentTest, ARankThatDoesNothingIsNotWaitedForForEver) {
  options_.idle_limit = absl::Milliseconds(200);
  v1::Assign assign = MakeAssign({"ok"}, 2);
  // Rank 1 is another worker's, and never comes: rank 0 waits at the vote, within its trial.
  assign.mutable_placements()->RemoveLast();
  *assign.mutable_cohort()->mutable_trials(0)->mutable_measure()->mutable_timeout() =
      ToProto(absl::Milliseconds(200));
  RunToEnd(assign);
  ASSERT_EQ(recorder_->Results().size(), 1u);
  EXPECT_EQ(recorder_->Results()[0].result().outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_FALSE(recorder_->relayed().empty());
}

// Two assignments play two workers; the test is the coordinator between them.
TEST_F(AssignmentTest, AGangOverTwoWorkersMeetsThroughTheCoordinator) {
  const v1::Assign whole = MakeAssign({"ok", "ok"}, 2);
  v1::Assign first = whole, second = whole;
  first.mutable_placements()->RemoveLast();
  second.mutable_placements()->DeleteSubrange(0, 1);

  class Relay : public Recorder {
   public:
    explicit Relay(service::RendezvousTable& table) : table_(table) {}
    void OnRelay(v1::FromWorker message) override {
      if (message.has_put()) {
        EXPECT_TRUE(
            table_.Put("gang", message.put().put().key(), message.put().put().value()).ok());
        return;
      }
      const v1::WorkerRendezvousGet& get = message.get();
      table_.Get("gang", get.get().key(), absl::Now() + absl::Seconds(30),
                 [this, get](const absl::StatusOr<std::string>& value) {
                   const std::lock_guard lock(target_mutex_);
                   if (target_ == nullptr || !value.ok()) return;
                   v1::WorkerRendezvousValue answer;
                   answer.set_rank(get.rank());
                   answer.mutable_value()->set_request(get.get().request());
                   answer.mutable_value()->set_value(*value);
                   target_->Deliver(answer);
                 });
    }
    void Target(Assignment* assignment) {
      const std::lock_guard lock(target_mutex_);
      target_ = assignment;
    }

   private:
    service::RendezvousTable& table_;
    std::mutex target_mutex_;
    Assignment* target_ = nullptr;
  };

  service::RendezvousTable table;
  table.Open("gang");
  Relay first_relay(table), second_relay(table);
  DeviceLeases first_leases, second_leases;
  Assignment first_assignment(first, options_, pool_, first_leases, first_relay);
  Assignment second_assignment(second, options_, pool_, second_leases, second_relay);
  first_relay.Target(&first_assignment);
  second_relay.Target(&second_assignment);
  // What was answered before the lines above found nobody to take it.
  first_assignment.Resend();
  second_assignment.Resend();
  EXPECT_TRUE(first_relay.WaitForEnd());
  EXPECT_TRUE(second_relay.WaitForEnd());
  EXPECT_EQ(first_relay.Results().size(), 2u);
  EXPECT_TRUE(second_relay.Results().empty());
  first_relay.Target(nullptr);
  second_relay.Target(nullptr);
}

}  // namespace
}  // namespace lcab::worker
