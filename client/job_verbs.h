// What the verbs about jobs share.

#ifndef LCAB_CLIENT_JOB_VERBS_H_
#define LCAB_CLIENT_JOB_VERBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/coordinator_link.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/verb.h"
#include "lcab/v1/jobs.pb.h"

namespace lcab::client {

// "error: ...", with kSuite where the suite is what is wrong.
ExitCode FailSuite(Console& console, const absl::Status& status);

// The job as a positional argument of a verb.
Argument JobArgument(std::string* job);
// The positional TRIAL.
Argument TrialArgument(std::string* trial);

// One row a job.
void PrintJobs(const std::vector<v1::Job>& jobs, const std::string& output, Console& console);

// Follows a job that goes on without us; an interrupt only ends the watching.
ExitCode WatchJob(CoordinatorLink& link, const std::string& job, int64_t after_sequence,
                  const std::string& output, const Interrupts& interrupts, Console& console);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_JOB_VERBS_H_
