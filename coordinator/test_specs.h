// Specifications and expansions for the tests of this folder.

#ifndef LCAB_COORDINATOR_TEST_SPECS_H_
#define LCAB_COORDINATOR_TEST_SPECS_H_

#include <string>
#include <vector>

#include "coordinator/submission.h"
#include "fmt/format.h"
#include "lcab/v1/jobs.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

// A causal forward trial of 1,024 tokens under this kernel; a minute is its limit.
inline v1::TrialSpec MakeSpec(const std::string& kernel, int ranks = 1) {
  v1::TrialSpec spec;
  spec.set_key(kernel);
  v1::Problem& problem = *spec.mutable_problem();
  problem.mutable_softmax();
  problem.set_q_heads(8);
  problem.set_kv_heads(2);
  problem.set_qk_head_dim(64);
  problem.set_v_head_dim(64);
  problem.set_dtype(v1::DTYPE_FP32);
  problem.mutable_mask()->set_name("causal");
  problem.set_q_tokens(1024);
  problem.set_k_tokens(1024);
  spec.set_pass(v1::PASS_FORWARD);
  spec.mutable_kernel()->set_name(kernel);
  spec.mutable_strategy()->set_name(ranks == 1 ? "single" : "ring");
  spec.set_ranks(ranks);
  spec.set_ranks_per_device(1);
  spec.mutable_measure()->mutable_timeout()->set_seconds(60);
  return spec;
}

// One cohort for each list of kernels; trials are numbered in this order.
inline Expansion MakeExpansion(const std::vector<std::vector<std::string>>& cohorts,
                               int ranks = 1) {
  Expansion expansion{.suite_name = "test"};
  for (const std::vector<std::string>& kernels : cohorts) {
    v1::CohortSpec& cohort = expansion.cohorts.emplace_back();
    cohort.set_ranks(ranks);
    cohort.set_ranks_per_device(1);
    for (const std::string& kernel : kernels) *cohort.add_trials() = MakeSpec(kernel, ranks);
  }
  return expansion;
}

inline v1::TrialResult MakeResult(v1::Outcome outcome, v1::Fault fault = v1::FAULT_UNSPECIFIED,
                                  const std::string& reason = "", int rank = -1) {
  v1::TrialResult result;
  result.set_outcome(outcome);
  result.set_fault(fault);
  result.set_reason(reason);
  result.set_rank(rank);
  if (outcome == v1::OUTCOME_OK) {
    result.set_flops(1 << 20);
    result.mutable_statistics()->set_samples(10);
    result.mutable_statistics()->set_median_seconds(1e-3);
  }
  return result;
}

// What runners come to.
inline const v1::TrialResult kOk = MakeResult(v1::OUTCOME_OK);
inline const v1::TrialResult kKilled =
    MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE,
               "the runner was killed from outside (SIGKILL)", 0);
inline const v1::TrialResult kSegfault =
    MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "the runner died of SIGSEGV", 0);

// An attempt, and those of a trial, as texts that can be compared.
inline std::string Shown(v1::Outcome outcome, v1::Fault fault, bool counted) {
  return fmt::format("{}/{}/{}", v1::Outcome_Name(outcome), v1::Fault_Name(fault), counted);
}
inline std::vector<std::string> Attempts(const v1::Trial& trial) {
  std::vector<std::string> shown;
  for (const v1::Attempt& attempt : trial.attempts()) {
    shown.push_back(Shown(attempt.outcome(), attempt.fault(), attempt.counted()));
  }
  return shown;
}

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_TEST_SPECS_H_
