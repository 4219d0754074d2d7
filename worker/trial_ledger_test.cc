#include "worker/trial_ledger.h"

#include "gtest/gtest.h"
#include "proto/proto_time.h"

namespace lcab::worker {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
constexpr absl::Duration kHold = absl::Seconds(2);

v1::Assign ThreeTrials() {
  v1::Assign assign;
  assign.set_assignment("assignments/1");
  for (int n = 0; n < 3; ++n) assign.mutable_cohort()->add_trials();
  for (const int trial : {0, 2}) {
    assign.add_trials(trial);
    assign.add_attempts(trial + 1);
  }
  return assign;
}

v1::TrialResult Result(v1::Outcome outcome, v1::Fault fault = v1::FAULT_UNSPECIFIED, int rank = 0) {
  v1::TrialResult result;
  result.set_outcome(outcome);
  result.set_fault(fault);
  result.set_rank(rank);
  result.set_reason("told by " + std::to_string(rank));
  return result;
}

TEST(TrialLedger, OnlyTrialsOfTheAssignmentAreOpen) {
  const TrialLedger ledger(ThreeTrials(), kHold);
  EXPECT_TRUE(ledger.open(0));
  EXPECT_FALSE(ledger.open(1));
  EXPECT_TRUE(ledger.open(2));
  EXPECT_FALSE(ledger.open(-1));
  EXPECT_FALSE(ledger.open(3));
}

TEST(TrialLedger, AResultSettlesItsTrialOnce) {
  TrialLedger ledger(ThreeTrials(), kHold);
  ledger.MarkStarted(2, kStart);
  ledger.CountSamples(2, 10);
  ledger.CountSamples(2, 5);
  const auto ended = ledger.Report(2, Result(v1::OUTCOME_OK), kStart + absl::Seconds(1));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->trial(), 2);
  EXPECT_EQ(ended->attempt(), 3);
  EXPECT_EQ(ended->iterations(), 15);
  EXPECT_EQ(FromProto(ended->result().start_time()), kStart);
  EXPECT_EQ(FromProto(ended->result().end_time()), kStart + absl::Seconds(1));
  EXPECT_FALSE(ledger.Report(2, Result(v1::OUTCOME_CRASHED), kStart).has_value());
  EXPECT_EQ(ledger.OpenTrials(), std::vector<int>{0});
}

TEST(TrialLedger, TheDeathOfARankTakesThePlaceOfAnothersLossOfIt) {
  TrialLedger ledger(ThreeTrials(), kHold);
  EXPECT_FALSE(ledger.Report(0, Result(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, 0), kStart)
                   .has_value());
  EXPECT_TRUE(ledger.open(0));
  EXPECT_EQ(ledger.HeldReasons(0), "rank 0: told by 0");
  const auto ended = ledger.Settle(0, Result(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, 1), kStart);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->result().rank(), 1);
  EXPECT_TRUE(ledger.TakeHeld(kStart + absl::Hours(1), true).empty());
  EXPECT_EQ(ledger.next_deadline(), absl::InfiniteFuture());
}

TEST(TrialLedger, ALossThatNothingExplainsIsBelievedAfterAWhileAndTheFirstOne) {
  TrialLedger ledger(ThreeTrials(), kHold);
  ledger.Report(0, Result(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, 3), kStart);
  ledger.Report(0, Result(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, 0),
                kStart + absl::Seconds(1));
  EXPECT_EQ(ledger.next_deadline(), kStart + kHold);
  EXPECT_TRUE(ledger.TakeHeld(kStart + absl::Seconds(1), false).empty());
  const auto taken = ledger.TakeHeld(kStart + kHold, false);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].result().rank(), 3);
  EXPECT_FALSE(ledger.open(0));
}

TEST(TrialLedger, LimitsAndKernelFaultsAreBelievedAtOnce) {
  TrialLedger ledger(ThreeTrials(), kHold);
  EXPECT_TRUE(ledger.Report(0, Result(v1::OUTCOME_OUT_OF_MEMORY, v1::FAULT_LIMIT, 1), kStart));
  EXPECT_TRUE(ledger.Report(2, Result(v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL, 1), kStart));
  EXPECT_TRUE(ledger.all_settled());
}

}  // namespace
}  // namespace lcab::worker
