#include "cp/executor.h"

#include "cp/executors/attend_calls.h"
#include "cp/executors/host.h"

namespace lcab::cp {

PlanTraits GetPlanTraits(const Kernel& kernel, const Options& kernel_options) {
  const Traits traits = kernel.GetTraits(kernel_options);
  return {.float32_partials = traits.float32_out,
          .float32_gradients = traits.float32_gradients,
          .wants_delta = traits.wants_delta};
}

absl::StatusOr<MemoryNeed> GetMemoryNeed(const RankPlan& plan, const ExecutorOptions& options) {
  const absl::StatusOr<AttendCalls> calls =
      AttendCalls::Create(plan, *options.kernel, options.kernel_options, options.device->info());
  if (!calls.ok()) return calls.status();
  return MemoryNeed{.plan_bytes = plan.slab_bytes,
                    .workspace_bytes = calls->requirements().workspace_bytes,
                    .schedule_bytes = calls->requirements().schedule_bytes};
}

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(const RankPlan& plan,
                                                       const ExecutorOptions& options) {
  switch (options.device->info().kind) {
    case DeviceKind::kCpu:
      return MakeHostExecutor(plan, options);
    case DeviceKind::kCuda:
      break;
  }
  return absl::UnimplementedError("this build has no executor for CUDA devices");
}

}  // namespace lcab::cp
