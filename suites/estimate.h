// What a trial will take, before it runs: work, bytes, memory and, roughly, time.

#ifndef LCAB_SUITES_ESTIMATE_H_
#define LCAB_SUITES_ESTIMATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lcab/v1/trial.pb.h"
#include "suites/calibration.h"
#include "suites/catalogue.h"

namespace lcab::suites {

struct Estimate {
  int64_t area = 0;   // allowed pairs, summed over query heads; exact
  int64_t flops = 0;  // of the pass over the whole problem; exact
  // Payload that all ranks send in one iteration, by the strategy's formula; exact. Nothing where
  // the trial cannot run.
  std::optional<int64_t> bytes_sent;
  // Device memory of the rank that needs most: tensors, workspace, schedules. Nothing for kernels
  // that are not of this build, and for more than 128 ranks.
  std::optional<int64_t> peak_bytes;
  // One iteration at the calibrated rate of this machine, its cores shared by all ranks; what is
  // sent costs nothing. Nothing where the kernel cannot be calibrated here.
  std::optional<absl::Duration> iteration;
  // The whole trial at most: warm-up and samples until `max_time` or `max_samples`, one sample at
  // least, and the checks, taken as 20 iterations and one second.
  std::optional<absl::Duration> whole;
};

// `calibration` measures each kind of kernel when it is first met. Fails as MakeProblem() does;
// trials that are unsupported have an estimate of their work only.
absl::StatusOr<Estimate> EstimateTrial(const v1::TrialSpec& trial, const Catalogue& catalogue,
                                       Calibration& calibration);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_ESTIMATE_H_
