// Names of jobs, trials and workers as people type them: in full, or only what differs.

#ifndef LCAB_CLIENT_RESOURCE_NAMES_H_
#define LCAB_CLIENT_RESOURCE_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lcab::client {

// "12" and "jobs/12" are jobs/12. Other text is returned as it is.
std::string JobName(std::string_view text);
// "12/3", "12/trials/3" and "jobs/12/trials/3" are jobs/12/trials/3.
std::string TrialName(std::string_view text);
// "w1" and "workers/w1" are workers/w1.
std::string WorkerName(std::string_view text);

// InvalidArgument unless the text is one of those spellings; says what they are.
absl::Status CheckJob(std::string_view text);
absl::Status CheckTrial(std::string_view text);
absl::Status CheckWorker(std::string_view text);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_RESOURCE_NAMES_H_
