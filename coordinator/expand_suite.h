// The SuiteExpander of the real coordinator: suites/ with the kernels of this build and of workers.

#ifndef LCAB_COORDINATOR_EXPAND_SUITE_H_
#define LCAB_COORDINATOR_EXPAND_SUITE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/submission.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/jobs.pb.h"

namespace lcab::coordinator {

absl::StatusOr<Expansion> ExpandSuite(const v1::SubmitJobRequest& request,
                                      const std::vector<v1::KernelInfo>& announced);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_EXPAND_SUITE_H_
