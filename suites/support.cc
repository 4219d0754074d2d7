#include "suites/support.h"

#include <fmt/format.h>

#include <string>

#include "absl/status/status.h"
#include "cp/executor.h"
#include "device/device.h"

namespace lcab::suites {

cp::PlanRequest PlanRequestOf(const Problem& problem, const Contender& contender) {
  cp::PlanRequest request{.problem = problem,
                          .topology = {.ranks = contender.ranks, .ranks_per_node = contender.ranks},
                          .options = contender.strategy_options,
                          .backward = contender.pass == Pass::kBackward,
                          .overlap = contender.overlap};
  if (contender.kernel->builtin != nullptr) {
    request.kernel = cp::GetPlanTraits(*contender.kernel->builtin, contender.kernel_options);
  }
  return request;
}

std::string WhyUnsupported(const Problem& problem, const Contender& contender) {
  if (contender.ranks % contender.ranks_per_device != 0) {
    return fmt::format(
        "ranks_per_device is {}, which does not divide {} ranks: some device would "
        "hold fewer than the others",
        contender.ranks_per_device, contender.ranks);
  }
  const absl::Status plan = contender.strategy->Supports(PlanRequestOf(problem, contender));
  if (!plan.ok()) {
    return fmt::format("strategy {} on {} rank{}: {}", contender.strategy->name(), contender.ranks,
                       contender.ranks == 1 ? "" : "s", std::string(plan.message()));
  }
  // Ranks compute parts of the problem, which may be possible where the whole is not.
  const Kernel* kernel = contender.kernel->builtin;
  if (kernel == nullptr || kernel->device_kind() != DeviceKind::kCpu || contender.ranks > 1) {
    return {};
  }
  const absl::Status compute = kernel->Supports(problem, contender.pass, contender.kernel_options,
                                                DeviceInfo{.kind = DeviceKind::kCpu});
  if (compute.ok()) return {};
  return fmt::format("kernel {}: {}", kernel->name(), std::string(compute.message()));
}

}  // namespace lcab::suites
