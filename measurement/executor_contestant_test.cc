#include "measurement/executor_contestant.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cp/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "measurement/one_rank_for_test.h"
#include "measurement/truth_store.h"

namespace lcab::measurement {
namespace {

using ::testing::HasSubstr;

// A kernel's executor on one rank that claims to have sent bytes to others.
class SendingExecutor : public cp::Executor {
 public:
  SendingExecutor(std::unique_ptr<cp::Executor> executor, int64_t bytes_of_pass)
      : executor_(std::move(executor)), bytes_of_pass_(bytes_of_pass) {}

  absl::Status Prepare() override { return executor_->Prepare(); }
  absl::Status Connect() override { return executor_->Connect(); }
  cp::MemoryNeed memory_need() const override { return executor_->memory_need(); }
  absl::Status Enqueue(Pass pass) override {
    sent_ += bytes_of_pass_;
    return executor_->Enqueue(pass);
  }
  absl::StatusOr<std::vector<std::string>> RunWatched(Pass pass, absl::Time deadline) override {
    return executor_->RunWatched(pass, deadline);
  }
  absl::Status Barrier(absl::Time deadline) override { return executor_->Barrier(deadline); }
  const std::vector<cp::Shard>& inputs() const override { return executor_->inputs(); }
  const std::vector<cp::Shard>& outputs(Pass pass) const override {
    return executor_->outputs(pass);
  }
  int64_t bytes_sent() const override { return sent_ + bytes_more; }
  void ResetBytesSent() override { sent_ = 0; }
  void Abort(std::string_view reason) override { executor_->Abort(reason); }

  int64_t bytes_more = 0;  // in an iteration

 private:
  const std::unique_ptr<cp::Executor> executor_;
  const int64_t bytes_of_pass_;
  int64_t sent_ = 0;
};

class ExecutorContestantTest : public testing::Test {
 protected:
  static constexpr int64_t kBytesOfPass = 1'000;

  std::unique_ptr<ExecutorContestant> Make(ContestantOptions options,
                                           const std::string& kernel = "cpu_tiled") {
    executor_ = std::make_unique<SendingExecutor>(
        MakeOneRankExecutor(problem_, options.pass, kernel, *device_), kBytesOfPass);
    options.cold = false;
    options.bytes_formula = kBytesOfPass;
    return ExecutorContestant::Create(options, truths_, *executor_, *device_, findings_).value();
  }
  // Seconds of an iteration of so many calls, which is examined, too.
  double Run(ExecutorContestant& contestant, int64_t calls) {
    EXPECT_TRUE(contestant.SetInputs(0, Soon()).ok());
    const double seconds = contestant.RunIteration(calls, Soon()).value();
    EXPECT_TRUE(contestant.Examine(/*iteration=*/0, /*inputs=*/0, Soon()).ok());
    return seconds;
  }
  std::string Finding() const {
    const std::vector<v1::Finding> wrong = findings_.Wrong(Part::kHonesty);
    return wrong.empty() ? "" : wrong.front().message();
  }

  const Problem problem_ = MakeProblem({"causal", {}, 70, 2, 1, 16, 16});
  const std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
  TruthStore truths_{problem_, /*seed=*/7, Distribution::kNormal, /*secret=*/11, *device_, {}};
  std::unique_ptr<SendingExecutor> executor_;
  Findings findings_{0};
};

TEST_F(ExecutorContestantTest, BytesOfEveryCallCountTowardsTheFormula) {
  const auto contestant = Make({});
  for (const int64_t calls : {1, 3}) {
    EXPECT_GT(Run(*contestant, calls), 0);
    EXPECT_EQ(contestant->bytes_sent(), kBytesOfPass);
  }
  EXPECT_TRUE(findings_.ok()) << Finding();
}

TEST_F(ExecutorContestantTest, OneByteTooManyInSeveralCallsIsFound) {
  const auto contestant = Make({});
  executor_->bytes_more = 1;
  Run(*contestant, /*calls=*/3);
  EXPECT_THAT(Finding(), HasSubstr("sent 3001 bytes in 3 forward passes, where the strategy's "
                                   "formula gives 3000"));
}

TEST_F(ExecutorContestantTest, ATimeOfZeroOrLessIsNoSampleAndAFinding) {  // Case T3
  const auto zero = Make({.elapsed = absl::ZeroDuration()});
  EXPECT_EQ(Run(*zero, 1), 0);
  EXPECT_THAT(Finding(), HasSubstr("the timer gave 0 for an iteration"));
  const auto negative = Make({.elapsed = -absl::Seconds(1)});
  EXPECT_EQ(Run(*negative, 1), 0);
  EXPECT_EQ(findings_.Wrong(Part::kHonesty).size(), 2U);
}

TEST_F(ExecutorContestantTest, AKernelThatChangesWhatItMayOnlyReadIsFoundBeforeAnythingIsTimed) {
  const auto honest = Make({});
  EXPECT_TRUE(honest->WatchCalls(Soon()).ok());
  EXPECT_FALSE(honest->changes_inputs());
  const auto contestant = Make({}, "test_mutates_input");
  EXPECT_TRUE(contestant->WatchCalls(Soon()).ok());
  EXPECT_TRUE(contestant->changes_inputs());
  EXPECT_THAT(Finding(), HasSubstr("the kernel changed what it may only read"));
}

}  // namespace
}  // namespace lcab::measurement
