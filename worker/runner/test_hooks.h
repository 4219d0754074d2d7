// What tests may ask of a runner that was started with --test-hooks. Outside such a runner nothing
// here is ever set.

#ifndef LCAB_WORKER_RUNNER_TEST_HOOKS_H_
#define LCAB_WORKER_RUNNER_TEST_HOOKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"

namespace lcab::runner {

struct TestHooks {
  // The cap in time expires on this rank, after so many timed iterations.
  int cap_expires_rank = -1;              // "cap_expires_rank"
  int64_t cap_expires_iteration = 0;      // "cap_expires_iteration"
  int allocation_fails_rank = -1;         // "allocation_fails_rank"
  int device_lost_trial = -1;             // "device_lost_trial": its end takes the device along
  std::string executor_fault;             // "executor_fault": see cp/executor.h
  std::optional<double> clock_fraction;   // "clock_fraction": of the expected clock
  int64_t clock_fraction_iterations = 0;  // "clock_fraction_iterations"; 0: all
  std::optional<absl::Duration> elapsed;  // "elapsed": what the timer gives, as "-1us"
  absl::Duration launch_delay;            // "launch_delay": of the host before each call, as "50us"
};

// InvalidArgument names a hook that is unknown or whose value cannot be read.
absl::StatusOr<TestHooks> ParseTestHooks(
    const google::protobuf::Map<std::string, std::string>& map);

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_TEST_HOOKS_H_
