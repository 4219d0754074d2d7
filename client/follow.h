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
#include "client/verb.h"
#include "lcab/v1/jobs.pb.h"
#include "service/stop_signals.h"

namespace lcab::client {

struct FollowOptions {
  int64_t after_sequence = 0;
  // How long the coordinator may be away.
  absl::Duration patience = absl::Minutes(10);
  // Called for each SIGINT or SIGTERM with how many there were; false: stop following.
  std::function<bool(int count)> on_signal;
};

// Shows progress on standard error until the job ends, and returns it as it is then. Cancelled when
// `on_signal` said so.
absl::StatusOr<v1::Job> Follow(CoordinatorLink& link, const std::string& job,
                               service::StopSignals& signals, const FollowOptions& options,
                               Console& console);

// All trials of a job, in the order of the suite.
absl::StatusOr<std::vector<v1::Trial>> ListTrials(CoordinatorLink& link, const std::string& job);

// Prints the job's results and returns the exit code that they come to.
ExitCode PrintResults(CoordinatorLink& link, const v1::Job& job, const std::string& output,
                      Console& console);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_FOLLOW_H_
