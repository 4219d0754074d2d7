// What an assignment makes of an absent coordinator, and of values that its ranks cannot exchange.

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/proto_time.h"
#include "worker/assignment.h"
#include "worker/rank_state.h"

namespace lcab::worker {
namespace {

using testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(TrialClockTest, TimeApartIsCountedForTheTrialsThatItFallsInto) {
  TrialClock clock(kStart);
  clock.TurnTo(0, kStart);
  clock.SetApart(true, kStart + absl::Seconds(3));
  EXPECT_EQ(clock.Spent(kStart + absl::Seconds(5)), absl::Seconds(5));
  EXPECT_EQ(clock.Apart(0, kStart + absl::Seconds(5)), absl::Seconds(2));
  clock.TurnTo(1, kStart + absl::Seconds(6));
  clock.SetApart(false, kStart + absl::Seconds(10));
  EXPECT_EQ(clock.Apart(0, kStart + absl::Seconds(20)), absl::Seconds(3));
  EXPECT_EQ(clock.Apart(1, kStart + absl::Seconds(20)), absl::Seconds(4));
  EXPECT_EQ(clock.Spent(kStart + absl::Seconds(20)), absl::Seconds(14));
  clock.TurnTo(0, kStart + absl::Seconds(20));
  EXPECT_EQ(clock.Spent(kStart + absl::Seconds(21)), absl::Seconds(7));
}

class Recorder : public AssignmentListener {
 public:
  void OnEvent(v1::AssignmentEvent event) override {
    const std::lock_guard lock(mutex_);
    if (event.has_trial_ended()) results_.push_back(event.trial_ended().result());
    if (event.has_ended()) end_ = event.ended();
    ended_ = ended_ || event.has_ended();
    changed_.notify_all();
  }
  void OnRelay(v1::FromWorker) override {}
  void OnRunnerDeath(const Verdict&) override {}

  bool WaitForEnd(absl::Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, absl::ToChronoTime(absl::Now() + patience),
                               [this] { return ended_; });
  }
  std::vector<v1::TrialResult> results() {
    const std::lock_guard lock(mutex_);
    return results_;
  }
  v1::AssignmentEvent::Ended end() {
    const std::lock_guard lock(mutex_);
    return end_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::vector<v1::TrialResult> results_;
  v1::AssignmentEvent::Ended end_;
};

class AssignmentAbsenceTest : public testing::Test {
 protected:
  AssignmentAbsenceTest() {
    options_.worker = "workers/w1";
    options_.slots = {{.id = "cpu:0"}, {.id = "cpu:1", .index = 1}};
    options_.hold = absl::Milliseconds(200);
  }

  // A trial of two ranks, of which `here` are on this worker.
  void Start(const std::string& kernel, int here, absl::Duration timeout) {
    v1::Assign assign;
    assign.set_assignment("assignments/1");
    assign.mutable_cohort()->set_ranks(2);
    assign.mutable_cohort()->set_ranks_per_device(1);
    v1::TrialSpec& spec = *assign.mutable_cohort()->add_trials();
    spec.mutable_kernel()->set_name(kernel);
    *spec.mutable_measure()->mutable_timeout() = ToProto(timeout);
    assign.add_trials(0);
    assign.add_attempts(1);
    for (int rank = 0; rank < here; ++rank) {
      assign.add_placements()->set_rank(rank);
      assign.mutable_placements(rank)->set_device(options_.slots[rank].id);
    }
    *assign.mutable_grace() = ToProto(absl::Milliseconds(300));
    assignment_ = std::make_unique<Assignment>(assign, options_, pool_, leases_, recorder_);
  }

  AssignmentOptions options_;
  RunnerPool pool_{{.program = std::string(std::getenv("LCAB_BIN_DIR")) + "/lcab-fake-runner"}};
  DeviceLeases leases_;
  Recorder recorder_;
  std::unique_ptr<Assignment> assignment_;
};

TEST_F(AssignmentAbsenceTest, TheLimitOfAGangOverWorkersStandsStillMeanwhile) {
  Start("ok", /*here=*/1, absl::Milliseconds(200));
  assignment_->Disconnect();
  EXPECT_FALSE(recorder_.WaitForEnd(absl::Seconds(2)));
  // Now its time goes on, and rank 1, which is nowhere, still does not come.
  assignment_->Resend();
  ASSERT_TRUE(recorder_.WaitForEnd(absl::Seconds(30)));
  ASSERT_EQ(recorder_.results().size(), 1u);
  EXPECT_EQ(recorder_.results()[0].fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_EQ(recorder_.results()[0].outcome(), v1::OUTCOME_CRASHED);
  EXPECT_THAT(recorder_.results()[0].reason(), HasSubstr("the coordinator was away"));
  EXPECT_EQ(recorder_.end().fault(), v1::FAULT_INFRASTRUCTURE);
}

TEST_F(AssignmentAbsenceTest, ItStandsStillForSoLongOnly) {
  options_.absence_limit = absl::Milliseconds(500);
  Start("ok", /*here=*/1, absl::Milliseconds(200));
  assignment_->Disconnect();
  ASSERT_TRUE(recorder_.WaitForEnd(absl::Seconds(30)));
  ASSERT_EQ(recorder_.results().size(), 1u);
  EXPECT_EQ(recorder_.results()[0].fault(), v1::FAULT_INFRASTRUCTURE);
}

TEST_F(AssignmentAbsenceTest, AGangOfOneWorkerIsHeldToItsLimit) {
  Start("hang", /*here=*/2, absl::Milliseconds(200));
  assignment_->Disconnect();
  ASSERT_TRUE(recorder_.WaitForEnd(absl::Seconds(30)));
  ASSERT_EQ(recorder_.results().size(), 1u);
  EXPECT_EQ(recorder_.results()[0].outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(recorder_.results()[0].fault(), v1::FAULT_LIMIT);
}

TEST_F(AssignmentAbsenceTest, ARunnersOwnVerdictThatTimeIsUpIsNotBelievedThen) {
  // Nothing runs before the connection is lost.
  const absl::Time soon = absl::Now() + absl::Seconds(1);
  ASSERT_TRUE(leases_.Acquire({"cpu:0"}, "other", soon, [] { return false; }).ok());
  Start("give_up", /*here=*/1, absl::Seconds(60));
  assignment_->Disconnect();
  leases_.Release("other");
  ASSERT_TRUE(recorder_.WaitForEnd(absl::Seconds(30)));
  ASSERT_EQ(recorder_.results().size(), 1u);
  EXPECT_EQ(recorder_.results()[0].fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_THAT(recorder_.results()[0].reason(), HasSubstr("it does not return"));
  // Other trials are not begun while nobody can be met.
  EXPECT_EQ(recorder_.end().fault(), v1::FAULT_INFRASTRUCTURE);
  EXPECT_EQ(recorder_.end().reason(), recorder_.results()[0].reason());
}

TEST_F(AssignmentAbsenceTest, AValueThatDoesNotFitEndsTheAttemptWithThatReason) {
  options_.rendezvous_bytes = 4;
  Start("ok", /*here=*/2, absl::Seconds(60));
  ASSERT_TRUE(recorder_.WaitForEnd(absl::Seconds(30)));
  ASSERT_EQ(recorder_.results().size(), 1u);
  EXPECT_EQ(recorder_.results()[0].outcome(), v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(recorder_.results()[0].fault(), v1::FAULT_LIMIT);
  EXPECT_THAT(recorder_.end().reason(), HasSubstr("could not exchange a value"));
}

}  // namespace
}  // namespace lcab::worker
