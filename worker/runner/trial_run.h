// One trial on this rank, from plan to result. Every stage ends with a vote of all ranks, so that a
// trial goes on, or leaves its cohort, on all of them alike; rank 0 reports what came of it.

#ifndef LCAB_WORKER_RUNNER_TRIAL_RUN_H_
#define LCAB_WORKER_RUNNER_TRIAL_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "cp/executor.h"
#include "cp/prove.h"
#include "cp/strategy.h"
#include "device/device.h"
#include "kernels/kernel.h"
#include "lcab/v1/runner.pb.h"
#include "lcab/v1/trial.pb.h"
#include "lcab/v1/votes.pb.h"
#include "measurement/executor_contestant.h"
#include "measurement/findings.h"
#include "measurement/sampler.h"
#include "measurement/truth_store.h"
#include "measurement/votes.h"
#include "worker/runner/connection.h"
#include "worker/runner/test_hooks.h"
#include "worker/runner/trial_clock.h"
#include "worker/runner/watchdog.h"

namespace lcab::runner {

// What the trials of a cohort share on this rank.
struct CohortContext {
  const v1::RunCohort& run;
  Connection& connection;
  Device& device;
  Watchdog& watchdog;
  TestHooks hooks;
  uint64_t secret = 0;  // the same on all ranks
  v1::Environment environment;
  // The truths of a problem, made by the first trial that has it.
  std::function<absl::StatusOr<measurement::TruthStore*>(const v1::TrialSpec&)> truths_of;
};

class TrialRun {
 public:
  // `index` is the trial's in run.cohort.
  TrialRun(CohortContext& cohort, int index);
  ~TrialRun();

  // The stages, in order. False: the trial has left, and has been reported.
  bool Plan();     // problem, plans, proof, digests compared, what memory it takes
  bool Prepare();  // allocates, compiles; then connects
  bool Probe();
  bool Verify();  // reports the result; always false

  enum class Sampling { kMore, kDone, kLeft };
  Sampling SampleBatch(int64_t round);

  int index() const { return index_; }
  // After Plan().
  int64_t memory_bytes() const { return memory_need_.total(); }
  void set_ran_in_turn() { ran_in_turn_ = true; }
  // From any thread: what this rank waits for ends soon.
  void Abort(std::string_view reason);

 private:
  int rank() const { return cohort_.run.rank(); }
  int ranks() const { return cohort_.run.cohort().ranks(); }
  absl::Time VoteDeadline() const;

  // Runs `work` and votes on it: true when every rank's went well. Else the trial leaves.
  bool Stage(std::string_view stage, const std::function<absl::Status()>& work,
             const std::function<std::string()>& content = nullptr,
             const measurement::Votes::Decide& decide = nullptr);
  void TurnTo(std::string_view stage);
  // Ends the trial, and a process that does not return from it, when its time is up.
  void Watch();
  void TurnAway();
  void TellProgress(std::string_view stage, int64_t samples, double median_seconds);

  absl::Status MakePlan();
  absl::Status FindComponents();
  absl::Status MakeContestant();
  absl::Status PrepareSampling();
  measurement::SamplerOptions MakeSamplerOptions();

  void Leave(const measurement::Verdict& verdict);
  void Complete(std::vector<v1::RankReport> reports);
  void Report(v1::TrialResult result);
  v1::TrialResult BeginResult() const;

  CohortContext& cohort_;
  const int index_;
  const v1::TrialSpec& spec_;
  const absl::Time start_time_;
  TrialClock clock_;
  measurement::Votes votes_;
  std::string stage_;
  std::atomic<bool> timed_out_ = false;
  bool ran_in_turn_ = false;

  measurement::TruthStore* truths_ = nullptr;
  Pass pass_ = Pass::kForward;
  const Kernel* kernel_ = nullptr;
  Options kernel_options_;
  const cp::Strategy* strategy_ = nullptr;
  cp::PlanRequest request_;
  uint64_t digest_ = 0;
  std::optional<cp::Proof> proof_;  // rank 0
  cp::MemoryNeed memory_need_;
  std::shared_ptr<cp::Executor> executor_;
  std::mutex executor_mutex_;  // of the pointer
  double prepare_seconds_ = 0;
  measurement::Findings findings_;
  std::string decision_;  // what rank 0 decided at the last stage's vote
  bool probe_wrong_ = false;
  std::unique_ptr<measurement::ExecutorContestant> contestant_;
  std::unique_ptr<measurement::Sampler> sampler_;
  int64_t rounds_ = 0;
};

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_TRIAL_RUN_H_
