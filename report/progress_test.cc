#include "report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "absl/time/time.h"
#include "report/sample_trials.h"

namespace lcab::report {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Terminal kTerminal{.interactive = true, .color = false, .width = 100};
const absl::Time kStart = absl::UnixEpoch();

v1::JobEvent Event(int64_t ok, int64_t total) {
  v1::JobEvent event;
  event.mutable_job()->mutable_counts()->set_total(total);
  event.mutable_job()->mutable_counts()->set_ok(ok);
  return event;
}

v1::JobEvent Ended(int64_t ok, int64_t total, const v1::Trial& trial) {
  v1::JobEvent event = Event(ok, total);
  event.set_trial(trial.name());
  event.set_trial_state(v1::TRIAL_STATE_DONE);
  *event.mutable_spec() = trial.spec();
  *event.mutable_result() = trial.result();
  return event;
}

v1::JobEvent Running(int64_t ok, int64_t total, const std::string& stage) {
  v1::JobEvent event = Event(ok, total);
  event.set_trial("jobs/12/trials/3");
  event.set_trial_state(v1::TRIAL_STATE_RUNNING);
  *event.mutable_spec() = OkTrial().spec();
  event.set_stage(stage);
  event.set_samples(7);
  return event;
}

TEST(Progress, InAPipeEveryTrialThatEndsIsALine) {
  std::ostringstream out;
  {
    Progress progress(out, {});
    progress.Show(Running(0, 2, "sample"), kStart);
    progress.Show(Ended(1, 2, OkTrial()), kStart + absl::Seconds(1));
    v1::JobEvent failed =
        Ended(1, 2, FailedTrial(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "signal 11 in rank 0"));
    failed.mutable_job()->mutable_counts()->set_crashed(1);
    progress.Show(failed, kStart + absl::Seconds(2));
  }
  EXPECT_EQ(out.str(),
            "[1/2] ok cpu_tiled causal 4K forward: 1000 GFLOP/s, 2.00 ms\n"
            "[2/2] crashed cpu_tiled causal 4K forward: signal 11 in rank 0\n");
}

TEST(Progress, OnATerminalABarSaysWhatRunsHowManyAreDoneAndHowLongIsLeft) {
  std::ostringstream out;
  Progress progress(out, kTerminal);
  progress.Show(Event(0, 4), kStart);
  progress.Show(Ended(1, 4, OkTrial()), kStart + absl::Seconds(10));
  out.str("");
  progress.Show(Running(1, 4, "sample"), kStart + absl::Seconds(11));
  const std::string bar = out.str();
  EXPECT_THAT(bar, HasSubstr("[######..................] 1/4"));
  EXPECT_THAT(bar, HasSubstr("33 s left"));  // 3 more at 11 s each
  EXPECT_THAT(bar, HasSubstr("cpu_tiled causal 4K forward - sample 7"));
  EXPECT_EQ(bar.find('\n'), std::string::npos);
}

TEST(Progress, TheBarNeverReachesTheLastColumn) {
  for (const int width : {1, 10, 40, 79}) {
    std::ostringstream out;
    Progress progress(out, {.interactive = true, .width = width});
    progress.Show(Running(1, 4, "sample"), kStart);
    std::string text = out.str();
    ASSERT_EQ(text.front(), '\r');
    ASSERT_THAT(text, EndsWith("\033[K"));
    EXPECT_LE(text.size() - 1 - 3, static_cast<size_t>(std::max(width - 1, 1)));
  }
}

TEST(Progress, TheBarIsWrittenTenTimesASecondAtMost) {
  std::ostringstream out;
  Progress progress(out, kTerminal);
  for (int i = 0; i < 1000; ++i) {
    progress.Show(Running(1, 4, "sample " + std::to_string(i)), kStart + absl::Milliseconds(i));
  }
  const std::string text = out.str();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 11);
}

TEST(Progress, WhatIsNotOkIsALineAboveTheBar) {
  std::ostringstream out;
  Progress progress(out, kTerminal);
  progress.Show(Running(1, 4, "sample"), kStart);
  out.str("");
  v1::JobEvent failed =
      Ended(1, 4, FailedTrial(v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL, "row 5 differs"));
  failed.mutable_job()->mutable_counts()->set_wrong_result(1);
  progress.Show(failed, kStart + absl::Seconds(1));
  EXPECT_THAT(out.str(), HasSubstr("\r\033[K[2/4] wrong_result cpu_tiled causal 4K forward: row 5 "
                                   "differs\n\r[####"));
  EXPECT_THAT(out.str(), HasSubstr("(1 not ok)"));
}

TEST(Progress, FinishLeavesNothingBehindAndIsDoneOnlyOnce) {
  std::ostringstream out;
  Progress progress(out, kTerminal);
  progress.Show(Event(0, 4), kStart);
  out.str("");
  progress.Finish();
  EXPECT_EQ(out.str(), "\r\033[K");
  progress.Finish();
  EXPECT_EQ(out.str(), "\r\033[K");
}

TEST(Progress, AJobThatIsJoinedLateIsJudgedByWhatItDoesSince) {
  std::ostringstream out;
  Progress progress(out, kTerminal);
  progress.Show(Event(90, 100), kStart);
  out.str("");
  progress.Show(Ended(91, 100, OkTrial()), kStart + absl::Seconds(10));
  EXPECT_THAT(out.str(), HasSubstr("1 m 30 s left"));
}

TEST(Progress, MessagesOfTheJobAreShownInBothWays) {
  v1::JobEvent event = Event(0, 4);
  event.set_message("waits for a worker with kernel cudnn");
  for (const Terminal& terminal : {Terminal{}, kTerminal}) {
    std::ostringstream out;
    Progress progress(out, terminal);
    progress.Show(event, kStart);
    EXPECT_THAT(out.str(), HasSubstr("waits for a worker with kernel cudnn\n"));
  }
}

TEST(Progress, AClockThatGoesBackDoesNotStopTheBar) {
  std::ostringstream out;
  Progress progress(out, kTerminal);
  progress.Show(Event(0, 4), kStart);
  out.str("");
  progress.Show(Running(0, 4, "sample"), kStart - absl::Hours(1));
  EXPECT_THAT(out.str(), HasSubstr("0 s"));
  EXPECT_THAT(out.str(), Not(HasSubstr("-1")));
}

TEST(Progress, AnAttemptThatEndedIsToldWithItsTrial) {
  v1::JobEvent event = Running(0, 2, "");
  event.set_trial_state(v1::TRIAL_STATE_PENDING);
  event.set_message("attempt 1 ended and does not count: another trial crashed");
  std::ostringstream out;
  Progress progress(out, {});
  progress.Show(event, kStart);
  EXPECT_EQ(out.str(),
            "cpu_tiled causal 4K forward: attempt 1 ended and does not count: another trial "
            "crashed\n");
}

// A job that was retried tells of its former ends, whose results are gone.
TEST(Progress, AnEndThatWasOvercomeIsToldInTheWordsOfItsEvent) {
  v1::JobEvent event = Ended(0, 2, OkTrial());
  event.clear_result();
  event.set_message("cancelled: its job was cancelled before it ran");
  for (const Terminal& terminal : {Terminal{}, kTerminal}) {
    std::ostringstream out;
    Progress progress(out, terminal);
    progress.Show(event, kStart);
    EXPECT_THAT(out.str(), HasSubstr("cpu_tiled causal 4K forward: cancelled: its job was "
                                     "cancelled before it ran\n"));
  }
}

TEST(Progress, NothingThatATerminalActsUponIsWrittenToIt) {
  for (const Terminal& terminal : {Terminal{}, kTerminal}) {
    std::ostringstream out;
    Progress progress(out, terminal);
    v1::JobEvent event = Event(0, 4);
    event.set_message("\x1b]0;title\x07");
    progress.Show(event, kStart);
    v1::JobEvent failed =
        Ended(0, 4, FailedTrial(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "died\x1b[2J\nhere"));
    progress.Show(failed, kStart);
    v1::JobEvent running = Running(0, 4, "sam\x1b[31mple");
    progress.Show(running, kStart + absl::Seconds(1));
    EXPECT_THAT(out.str(), HasSubstr("\\x1b]0;title\\x07\n"));
    EXPECT_THAT(out.str(), HasSubstr("died\\x1b[2J\\x0ahere\n"));
    EXPECT_THAT(out.str(), Not(HasSubstr("\x1b[31m")));
  }
}

}  // namespace
}  // namespace lcab::report
