// What people do to jobs: submit, cancel, retry. Every function is one step inside a change of the
// store.

#ifndef LCAB_COORDINATOR_SUBMISSION_H_
#define LCAB_COORDINATOR_SUBMISSION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/effects.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/jobs.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

// What a suite becomes. A trial's number in its job counts through the cohorts, from 0.
struct Expansion {
  std::string suite_name;
  std::vector<v1::CohortSpec> cohorts;
};

// Reads a suite. `announced` are the kernels of all workers that were ever met, besides those of
// this build. InvalidArgument says where the suite is wrong, and what would be right.
using SuiteExpander = std::function<absl::StatusOr<Expansion>(
    const v1::SubmitJobRequest& request, const std::vector<v1::KernelInfo>& announced)>;

// Who submits, which others read on their terminals: empty, or at most kMostSubmitterBytes of text
// without control characters. InvalidArgument says so.
absl::Status CheckSubmitter(std::string_view submitter);
inline constexpr size_t kMostSubmitterBytes = 100;

// Queues the trials; those that the suite knows to be unsupported end at once. Returns the job's
// id; that of the earlier job when the request_id was seen before. InvalidArgument when there is
// nothing to do, or a cohort is too large to send.
absl::StatusOr<int64_t> SubmitJob(Step& step, const v1::SubmitJobRequest& request,
                                  const Expansion& expansion);

// See Jobs.CancelJob. NotFound; FailedPrecondition (JOB_ENDED) when the job has ended.
absl::Status CancelJob(Step& step, int64_t job);

// See Jobs.RetryJob. NotFound; FailedPrecondition (JOB_RUNNING, NOTHING_TO_RETRY).
absl::Status RetryJob(Step& step, int64_t job);

absl::Status JobNotFound(int64_t job);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_SUBMISSION_H_
