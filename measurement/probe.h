// The probe: runs a pass, untimed, on inputs whose outputs are closed forms of the mask, and
// compares every row and every key that this rank holds. See probe_pattern.h.

#ifndef LCAB_MEASUREMENT_PROBE_H_
#define LCAB_MEASUREMENT_PROBE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "attention/problem.h"
#include "cp/executor.h"
#include "device/device.h"
#include "measurement/findings.h"

namespace lcab::measurement {

// Runs on all ranks at the same time. Leaves the executor's inputs overwritten. What is wrong goes
// to `findings`; the status is of the executor and the device.
absl::Status Probe(const Problem& problem, Pass pass, cp::Executor& executor, Device& device,
                   absl::Time deadline, Findings* findings);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_PROBE_H_
