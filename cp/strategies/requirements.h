// What strategies demand of the kernel that will run their plans.

#ifndef LCAB_CP_STRATEGIES_REQUIREMENTS_H_
#define LCAB_CP_STRATEGIES_REQUIREMENTS_H_

#include "absl/status/status.h"
#include "cp/strategy.h"

namespace lcab::cp {

// Unimplemented unless partial outputs can be written in fp32, as merging them demands.
absl::Status RequireFloat32Partials(const PlanRequest& request);
// Unimplemented unless gradients can be written in fp32, as summing them demands; Ok when no
// backward pass is asked.
absl::Status RequireFloat32Gradients(const PlanRequest& request);

}  // namespace lcab::cp

#endif  // LCAB_CP_STRATEGIES_REQUIREMENTS_H_
