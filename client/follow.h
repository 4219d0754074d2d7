// Following a job to its end: progress as it goes, then what became of it.

#ifndef LCAB_CLIENT_FOLLOW_H_
#define LCAB_CLIENT_FOLLOW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_link.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/verb.h"
#include "lcab/v1/jobs.pb.h"

namespace lcab::client {

struct FollowOptions {
  int64_t after_sequence = 0;
  // How long the coordinator may be away.
  absl::Duration patience = absl::Minutes(10);
  // Called at the first interrupt; false: stop following. (The second ends the program.)
  std::function<bool()> on_interrupt;
  // Asked several times a second; not ok: following ends with that status.
  std::function<absl::Status()> check;
};

// Shows progress on standard error until the job ends, and why nothing runs while nothing does.
// Returns the job as it is then. Cancelled when `on_interrupt` said so.
absl::StatusOr<v1::Job> Follow(CoordinatorLink& link, const std::string& job,
                               const Interrupts& interrupts, const FollowOptions& options,
                               Console& console);

// The job as it is now.
absl::StatusOr<v1::Job> GetJob(CoordinatorLink& link, const std::string& job,
                               absl::Duration timeout = absl::Seconds(30));
// All trials of a job, in the order of the suite.
absl::StatusOr<std::vector<v1::Trial>> ListTrials(CoordinatorLink& link, const std::string& job);

// Prints the job's results and returns the exit code that they come to.
ExitCode PrintResults(CoordinatorLink& link, const v1::Job& job, const std::string& output,
                      Console& console);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_FOLLOW_H_
