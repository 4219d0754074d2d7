// What a trial is made of besides computing: its clock, its outcome, its statistics, test hooks.

#include <cmath>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "google/protobuf/map.h"
#include "gtest/gtest.h"
#include "worker/runner/process_limits.h"
#include "worker/runner/test_hooks.h"
#include "worker/runner/trial_clock.h"
#include "worker/runner/trial_outcome.h"
#include "worker/runner/trial_result.h"

namespace lcab::runner {
namespace {

using ::testing::HasSubstr;

TEST(TrialClockTest, StandsStillWhileOthersHaveTheirTurn) {
  TrialClock clock(absl::Hours(1));
  clock.Start();
  const absl::Time first = clock.deadline();
  clock.Stop();
  // Whatever passes between turns moves the deadline with it.
  clock.Start();
  EXPECT_GE(clock.deadline(), first);
  EXPECT_LE(clock.deadline(), absl::Now() + absl::Hours(1));
}

TEST(JudgeTest, EachStatusIsAnOutcomeAndAFault) {
  struct Case {
    absl::Status status;
    const char* stage;
    v1::Outcome outcome;
    v1::Fault fault;
  };
  for (const Case& c : {
           Case{absl::UnimplementedError(""), "plan", v1::OUTCOME_UNSUPPORTED,
                v1::FAULT_UNSPECIFIED},
           Case{absl::NotFoundError(""), "plan", v1::OUTCOME_UNSUPPORTED, v1::FAULT_UNSPECIFIED},
           Case{absl::ResourceExhaustedError(""), "prepare", v1::OUTCOME_OUT_OF_MEMORY,
                v1::FAULT_LIMIT},
           Case{absl::ResourceExhaustedError(""), "sample", v1::OUTCOME_OUT_OF_MEMORY,
                v1::FAULT_LIMIT},
           Case{absl::DeadlineExceededError(""), "sample", v1::OUTCOME_TIMED_OUT, v1::FAULT_LIMIT},
           Case{absl::DeadlineExceededError(""), "connect", v1::OUTCOME_CRASHED,
                v1::FAULT_INFRASTRUCTURE},
           Case{absl::UnavailableError(""), "sample", v1::OUTCOME_CRASHED,
                v1::FAULT_INFRASTRUCTURE},
           Case{absl::FailedPreconditionError(""), "plan", v1::OUTCOME_WRONG_RESULT,
                v1::FAULT_KERNEL},
           Case{absl::InternalError(""), "probe", v1::OUTCOME_CRASHED, v1::FAULT_KERNEL},
           Case{absl::InternalError(""), "connect", v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE},
           Case{absl::OkStatus(), "verify", v1::OUTCOME_OK, v1::FAULT_UNSPECIFIED},
       }) {
    const Judgement judgement = Judge(c.status, c.stage);
    EXPECT_EQ(judgement.outcome, c.outcome) << c.status << " " << c.stage;
    EXPECT_EQ(judgement.fault, c.fault) << c.status << " " << c.stage;
  }
}

TEST(MakeStatisticsTest, AreOfTheKeptSamples) {
  const v1::Statistics statistics = MakeStatistics({6, 1, 5, 2, 4, 3}, 7, 2, 0.95);
  EXPECT_EQ(statistics.samples(), 6);
  EXPECT_EQ(statistics.discarded(), 7);
  EXPECT_EQ(statistics.iterations_per_sample(), 2);
  EXPECT_EQ(statistics.median_seconds(), 3.5);
  EXPECT_EQ(statistics.low_seconds(), 1);
  EXPECT_EQ(statistics.high_seconds(), 6);
  EXPECT_EQ(statistics.confidence(), 0.96875);
  EXPECT_EQ(statistics.minimum_seconds(), 1);
  EXPECT_EQ(statistics.maximum_seconds(), 6);
  EXPECT_EQ(statistics.quantile20_seconds(), 2);
  EXPECT_EQ(statistics.quantile80_seconds(), 5);
}

TEST(MakeStatisticsTest, NoSamplesGiveCountsAndNoNan) {  // Case T1
  const v1::Statistics statistics = MakeStatistics({}, 50, 1, 0.95);
  EXPECT_EQ(statistics.samples(), 0);
  EXPECT_EQ(statistics.discarded(), 50);
  EXPECT_EQ(statistics.median_seconds(), 0);
  EXPECT_EQ(statistics.confidence(), 0);
}

TEST(TestHooksTest, AreReadByName) {
  google::protobuf::Map<std::string, std::string> map;
  map["cap_expires_rank"] = "2";
  map["cap_expires_iteration"] = "37";
  map["elapsed"] = "-1us";
  map["clock_fraction"] = "0.6";
  const TestHooks hooks = ParseTestHooks(map).value();
  EXPECT_EQ(hooks.cap_expires_rank, 2);
  EXPECT_EQ(hooks.cap_expires_iteration, 37);
  EXPECT_EQ(hooks.elapsed, -absl::Microseconds(1));
  EXPECT_EQ(hooks.clock_fraction, 0.6);
  EXPECT_EQ(hooks.allocation_fails_rank, -1);
}

TEST(TestHooksTest, UnknownNamesAndUnreadableValuesAreRefused) {
  google::protobuf::Map<std::string, std::string> map;
  map["cap_expires"] = "2";
  EXPECT_THAT(std::string(ParseTestHooks(map).status().message()),
              HasSubstr("no test hook 'cap_expires'"));
  map.clear();
  map["cap_expires_rank"] = "two";
  EXPECT_THAT(std::string(ParseTestHooks(map).status().message()), HasSubstr("cannot be 'two'"));
}

TEST(ProcessLimitsTest, CpusThatDoNotExistAreRefused) {
  const std::vector<int32_t> none = {-1}, far = {1 << 20};
  EXPECT_FALSE(BindToCpus(none).ok());
  EXPECT_FALSE(BindToCpus(far).ok());
  EXPECT_TRUE(BindToCpus({}).ok());
}

}  // namespace
}  // namespace lcab::runner
