// Runs one rank's plan on a device of any kind: streams and events give the order of the steps,
// kernels attend, and a DeviceSteps does the rest.

#ifndef LCAB_CP_EXECUTORS_PLAN_EXECUTOR_H_
#define LCAB_CP_EXECUTORS_PLAN_EXECUTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cp/executor.h"
#include "cp/executors/device_steps.h"
#include "cp/plan.h"

namespace lcab::cp {

// As MakeExecutor(), with the steps of options.device's kind.
absl::StatusOr<std::unique_ptr<Executor>> MakePlanExecutor(
    const RankPlan& plan, const ExecutorOptions& options,
    std::unique_ptr<DeviceSteps> device_steps);

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_PLAN_EXECUTOR_H_
