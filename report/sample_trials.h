// Trials as the store gives them, for tests of how results are shown.

#ifndef LCAB_REPORT_SAMPLE_TRIALS_H_
#define LCAB_REPORT_SAMPLE_TRIALS_H_

#include <string>

#include "lcab/v1/jobs.pb.h"

namespace lcab::report {

// 4K causal, 8:2 heads x 64, bf16, forward, cpu_tiled alone, done and ok: 2 ms for 2 GFLOP, so
// 1 TFLOP/s.
inline v1::Trial OkTrial() {
  v1::Trial trial;
  trial.set_name("jobs/12/trials/3");
  trial.set_state(v1::TRIAL_STATE_DONE);
  v1::TrialSpec& spec = *trial.mutable_spec();
  spec.set_key("the key");
  spec.set_pass(v1::PASS_FORWARD);
  spec.mutable_kernel()->set_name("cpu_tiled");
  spec.mutable_strategy()->set_name("single");
  spec.set_ranks(1);
  spec.set_ranks_per_device(1);
  spec.set_overlap(true);
  v1::Problem& problem = *spec.mutable_problem();
  problem.mutable_softmax();
  problem.set_q_heads(8);
  problem.set_kv_heads(2);
  problem.set_qk_head_dim(64);
  problem.set_v_head_dim(64);
  problem.set_dtype(v1::DTYPE_BF16);
  problem.mutable_mask()->set_name("causal");
  problem.set_q_tokens(4096);
  problem.set_k_tokens(4096);
  problem.set_seed(1);
  v1::Measure& measure = *spec.mutable_measure();
  measure.set_mode(v1::MEASURE_MODE_MEASURE);
  measure.set_cache(v1::CACHE_COLD);
  measure.set_inputs("normal");
  measure.set_confidence(0.95);
  v1::TrialResult& result = *trial.mutable_result();
  result.set_outcome(v1::OUTCOME_OK);
  result.set_area(int64_t{1} << 53);  // a double could not tell it from its successor
  result.set_flops(2'000'000'000);
  result.set_stop_reason(v1::STOP_REASON_PRECISION);
  result.set_rank(-1);
  v1::Statistics& statistics = *result.mutable_statistics();
  statistics.set_samples(10);
  statistics.set_median_seconds(0.002);
  statistics.set_low_seconds(0.0019);
  statistics.set_high_seconds(0.0021);
  statistics.set_confidence(0.9785);
  statistics.set_iterations_per_sample(1);
  v1::Verification& verification = *result.mutable_verification();
  verification.set_probe_ok(true);
  verification.set_numbers_ok(true);
  verification.set_honesty_ok(true);
  verification.set_max_error(0.0021);
  verification.set_max_error_ratio(0.4);
  v1::RankResult& rank = *result.add_ranks();
  rank.set_worker("w1");
  result.mutable_environment()->set_cpu_model("A CPU, with a comma");
  return trial;
}

// The same trial with another end.
inline v1::Trial FailedTrial(v1::Outcome outcome, v1::Fault fault, const std::string& reason) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->set_outcome(outcome);
  trial.mutable_result()->set_fault(fault);
  trial.mutable_result()->set_reason(reason);
  return trial;
}

}  // namespace lcab::report

#endif  // LCAB_REPORT_SAMPLE_TRIALS_H_
