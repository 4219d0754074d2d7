// Jobs in the store. Errors stick to the connection (see connection.h).

#ifndef LCAB_COORDINATOR_JOB_TABLE_H_
#define LCAB_COORDINATOR_JOB_TABLE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "coordinator/states.h"
#include "lcab/v1/jobs.pb.h"

namespace lcab::coordinator {

// A queued job of `trials` pending trials. Returns its id.
int64_t InsertJob(Connection& db, const v1::SubmitJobRequest& request, std::string_view suite_name,
                  int64_t trials, absl::Time now);

// The job that a request_id made before; nothing when it is empty or new.
std::optional<int64_t> FindJobOfRequest(Connection& db, std::string_view request_id);

std::optional<JobState> GetJobState(Connection& db, int64_t job);

// Fails the transaction (Internal) when the job is not in `from` or the move is not in the table.
void MoveJob(Connection& db, int64_t job, JobState from, JobState to, absl::Time now);

// Without waiting_reason, which is not stored.
std::optional<v1::Job> LoadJob(Connection& db, int64_t job, bool with_suite_text);

// Jobs below `before` (0: all), newest first, without their suites' texts.
std::vector<v1::Job> LoadJobs(Connection& db, int64_t before, int limit);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_JOB_TABLE_H_
