// A cohort on one rank: the whole way from its specification to a result for each of its trials.

#ifndef LCAB_WORKER_RUNNER_RUN_COHORT_H_
#define LCAB_WORKER_RUNNER_RUN_COHORT_H_

#include <memory>
#include <string>

#include "device/device.h"
#include "lcab/v1/runner.pb.h"
#include "worker/runner/connection.h"
#include "worker/runner/watchdog.h"

namespace lcab::runner {

// What a runner keeps from one cohort to the next.
struct WarmState {
  std::unique_ptr<Device> device;
  std::string device_key;  // what it was made from
  Watchdog watchdog;
  bool test_hooks = false;  // honoured
};

// Runs all trials of `run.trials()`, each reported over the connection. Returns why the runner must
// not be kept; empty when it may.
std::string RunCohort(const v1::RunCohort& run, Connection& connection, WarmState& warm);

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_RUN_COHORT_H_
