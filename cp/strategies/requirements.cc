#include "cp/strategies/requirements.h"

#include "fmt/format.h"

namespace lcab::cp {

absl::Status RequireFloat32Partials(const PlanRequest& request) {
  if (request.problem.dtype == DType::kFloat32 || request.kernel.float32_partials) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      fmt::format("partial outputs of {} ranks are merged in fp32, and the kernel writes out only "
                  "in {}; choose a kernel with fp32 partial outputs",
                  request.topology.ranks, Name(request.problem.dtype)));
}

absl::Status RequireFloat32Gradients(const PlanRequest& request) {
  if (!request.backward || request.problem.dtype == DType::kFloat32 ||
      request.kernel.float32_gradients) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      fmt::format("gradients of {} ranks are summed in fp32, and the kernel writes them only in "
                  "{}; choose a kernel with fp32 gradients",
                  request.topology.ranks, Name(request.problem.dtype)));
}

}  // namespace lcab::cp
