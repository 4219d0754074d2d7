// A trial's executor as the sampler sees it: times a pass, and watches what it does.

#ifndef LCAB_MEASUREMENT_EXECUTOR_CONTESTANT_H_
#define LCAB_MEASUREMENT_EXECUTOR_CONTESTANT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/problem.h"
#include "cp/executor.h"
#include "device/device.h"
#include "measurement/findings.h"
#include "measurement/honesty.h"
#include "measurement/numbers.h"
#include "measurement/sampler.h"
#include "measurement/truth_store.h"

namespace lcab::measurement {

struct ContestantOptions {
  Pass pass = Pass::kForward;
  bool cold = true;            // caches are flushed before each iteration
  bool deterministic = false;  // the kernel promises equal bits
  uint64_t secret = 0;         // draws the weights of fingerprints
  int64_t bytes_formula = 0;   // that this rank sends in the pass
  // Test hooks; empty outside tests.
  absl::Duration launch_delay;            // of the host, before each timed call
  std::optional<absl::Duration> elapsed;  // what the timer gives
  std::optional<double> clock_fraction;   // of the expected clock that the device claims
  int64_t clock_fraction_iterations = 0;  // for so many iterations; 0: all
};

class ExecutorContestant : public Contestant {
 public:
  // The executor is prepared and connected. All must outlive this.
  static absl::StatusOr<std::unique_ptr<ExecutorContestant>> Create(
      const ContestantOptions& options, TruthStore& truths, cp::Executor& executor, Device& device,
      Findings& findings);

  absl::Status SetInputs(int inputs, absl::Time deadline) override;
  absl::StatusOr<double> RunIteration(int64_t calls, absl::Time deadline) override;
  absl::Status Examine(int64_t iteration, int inputs, absl::Time deadline) override;
  absl::Status Keep(int slot, int inputs, absl::Time deadline) override;
  absl::StatusOr<Conditions> ReadConditions() override;
  void Abort(std::string_view reason) override { executor_.Abort(reason); }
  Findings& findings() override { return findings_; }
  double shortest_sample_seconds() const override { return shortest_sample_seconds_; }

  // Untimed: whether each call of the plan leaves what it may only read as it was. All ranks at the
  // same time, before the first iteration.
  absl::Status WatchCalls(absl::Time deadline);
  bool changes_inputs() const { return changes_inputs_; }
  // Some rank's calls change their inputs. They are then set anew before each iteration, so that
  // what else is found does not hang on how many iterations there were. On all ranks or on none.
  void SetInputsEachTime() { sets_inputs_each_time_ = true; }

  // Compares the kept rows with fp64, and, untimed, rows of other distributions of inputs. All
  // ranks at the same time.
  absl::Status CheckNumbers(absl::Time deadline);

  // Of the last iteration, one call.
  int64_t bytes_sent() const { return bytes_sent_ / calls_; }

 private:
  struct Kept {
    int inputs = 0;
    KeptRows rows;
  };

  ExecutorContestant(const ContestantOptions& options, TruthStore& truths, cp::Executor& executor,
                     Device& device, Findings& findings, std::unique_ptr<Timer> timer);
  absl::Status MeasureTimer();
  absl::Status WriteInputs(int truth_case, absl::Time deadline);
  absl::Status FillInputs(int truth_case, absl::Time deadline);
  absl::StatusOr<Fingerprint> PrintInputs(absl::Time deadline);
  absl::Status CheckInputs(absl::Time deadline);
  // Internal where a row has no truth: what is not compared must not pass.
  absl::Status Compare(const KeptRows& kept, const std::vector<TruthRow>& truth);
  void CheckBytes();

  const ContestantOptions options_;
  TruthStore& truths_;
  cp::Executor& executor_;
  Device& device_;
  Findings& findings_;
  std::unique_ptr<Timer> timer_;
  FingerprintJudge judge_;
  double shortest_sample_seconds_ = 0;
  bool changes_inputs_ = false;
  bool sets_inputs_each_time_ = false;
  int inputs_ = 0;  // set last
  std::optional<Fingerprint> inputs_print_;
  std::array<std::optional<Kept>, kSlots> kept_;
  Conditions conditions_;
  absl::Time conditions_read_ = absl::InfinitePast();
  int64_t iterations_ = 0;
  int64_t calls_ = 1;       // of the last iteration
  int64_t bytes_sent_ = 0;  // in all of them
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_EXECUTOR_CONTESTANT_H_
