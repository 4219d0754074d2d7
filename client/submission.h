// Handing a suite to a coordinator.

#ifndef LCAB_CLIENT_SUBMISSION_H_
#define LCAB_CLIENT_SUBMISSION_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/coordinator_link.h"
#include "client/verb.h"
#include "lcab/v1/jobs.pb.h"
#include "suites/parse.h"

namespace lcab::client {

// The suite as a positional argument of a verb.
Argument SuiteArgument(std::string* suite);

// Who submits: $USER, or empty.
std::string Submitter();

// InvalidArgument unless it is a name that a coordinator takes.
absl::Status CheckSubmitter(std::string_view submitter);

// Submits under a request id of its own, and once more when the answer was lost on the way: there
// is one job. InvalidArgument is the coordinator's refusal of the suite.
absl::StatusOr<v1::Job> Submit(CoordinatorLink& link, const suites::SuiteSource& source,
                               const std::string& submitter);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_SUBMISSION_H_
