// How a program ends that ran or watched a job: from the counts of its trials' outcomes.

#ifndef LCAB_CLIENT_JOB_EXIT_CODE_H_
#define LCAB_CLIENT_JOB_EXIT_CODE_H_

#include "client/exit_codes.h"
#include "lcab/v1/jobs.pb.h"

namespace lcab::client {

// kTrials where any trial failed, else kCancelled where any was cancelled or did not end, else kOk:
// `unsupported` alone is no failure.
inline ExitCode JobExitCode(const v1::TrialCounts& counts) {
  const int64_t failed = counts.wrong_result() + counts.out_of_memory() + counts.timed_out() +
                         counts.crashed() + counts.lost();
  if (failed > 0) return ExitCode::kTrials;
  if (counts.ok() + counts.unsupported() < counts.total()) return ExitCode::kCancelled;
  return ExitCode::kOk;
}

}  // namespace lcab::client

#endif  // LCAB_CLIENT_JOB_EXIT_CODE_H_
