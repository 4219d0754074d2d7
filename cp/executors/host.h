// Runs plans on CPU devices: attention by kernels, the steps between in place, messages by a
// communicator from streams of their own, so that they overlap with computing.

#ifndef LCAB_CP_EXECUTORS_HOST_H_
#define LCAB_CP_EXECUTORS_HOST_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cp/executor.h"
#include "cp/plan.h"

namespace lcab::cp {

// As MakeExecutor(), for a CPU device.
absl::StatusOr<std::unique_ptr<Executor>> MakeHostExecutor(const RankPlan& plan,
                                                           const ExecutorOptions& options);

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_HOST_H_
