// What a status means for a trial: its outcome and whose fault it is.

#ifndef LCAB_WORKER_RUNNER_TRIAL_OUTCOME_H_
#define LCAB_WORKER_RUNNER_TRIAL_OUTCOME_H_

#include <string_view>

#include "absl/status/status.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::runner {

struct Judgement {
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
  v1::Fault fault = v1::FAULT_UNSPECIFIED;
};

// Of a failure in a stage: "plan", "prepare", "connect", "probe", "sample" or "verify".
Judgement Judge(const absl::Status& status, std::string_view stage);

// What a person can do about it, to follow the status's own words; may be empty.
std::string_view AdviceFor(v1::Outcome outcome);

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_TRIAL_OUTCOME_H_
