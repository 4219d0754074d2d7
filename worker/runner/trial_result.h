// A trial's result from what all ranks report and what was sampled.

#ifndef LCAB_WORKER_RUNNER_TRIAL_RESULT_H_
#define LCAB_WORKER_RUNNER_TRIAL_RESULT_H_

#include <span>
#include <vector>

#include "cp/prove.h"
#include "lcab/v1/trial.pb.h"
#include "lcab/v1/votes.pb.h"
#include "measurement/batch_planner.h"

namespace lcab::runner {

// Outcome, reason, statistics, verification and ranks of a trial that came to its end. Only an `ok`
// one has statistics of its durations: nothing else may be compared by speed.
void FillResult(const v1::TrialSpec& spec, std::span<const v1::RankReport> reports,
                std::span<const cp::RankFacts> facts, const measurement::BatchPlanner& sampled,
                v1::StopReason stop_reason, v1::TrialResult* result);

// Of the kept samples; empty but for the counts when there is none.
v1::Statistics MakeStatistics(const std::vector<double>& kept_seconds, int64_t discarded,
                              int64_t calls_per_sample, double confidence);

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_TRIAL_RESULT_H_
