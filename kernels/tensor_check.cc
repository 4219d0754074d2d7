#include "kernels/tensor_check.h"

#include <string_view>

#include "fmt/format.h"

namespace lcab {
namespace {

absl::Status CheckTensor(const Problem& problem, Tensor role, const TensorView& view,
                         bool float32_allowed) {
  const Problem::Extent extent = problem.ExtentOf(role);
  if (view.tokens != extent.tokens || view.heads != extent.heads || view.dim != extent.dim) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is [{}, {}, {}] and has to be [tokens, heads, dim] = [{}, {}, {}]", Name(role),
        view.tokens, view.heads, view.dim, extent.tokens, extent.heads, extent.dim));
  }
  if (view.dtype != problem.dtype && !(float32_allowed && view.dtype == DType::kFloat32)) {
    return absl::InvalidArgumentError(fmt::format("{} is {} and has to be {}{}", Name(role),
                                                  Name(view.dtype), Name(problem.dtype),
                                                  float32_allowed ? " or fp32" : ""));
  }
  if (view.data == nullptr && extent.tokens > 0) {
    return absl::InvalidArgumentError(fmt::format("{} has no data", Name(role)));
  }
  return absl::OkStatus();
}

absl::Status CheckRowStat(const Problem& problem, Tensor role, const RowStatView& view) {
  const Problem::Extent extent = problem.ExtentOf(role);
  if (view.tokens != extent.tokens || view.heads != extent.heads) {
    return absl::InvalidArgumentError(
        fmt::format("{} is [{}, {}] and has to be [heads, tokens] = [{}, {}]", Name(role),
                    view.heads, view.tokens, extent.heads, extent.tokens));
  }
  if (view.data == nullptr && extent.tokens > 0) {
    return absl::InvalidArgumentError(fmt::format("{} has no data", Name(role)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensors(const Problem& problem, const Traits& traits,
                          const ForwardTensors& tensors) {
  absl::Status status = CheckTensor(problem, Tensor::kQ, tensors.q, false);
  if (status.ok()) status = CheckTensor(problem, Tensor::kK, tensors.k, false);
  if (status.ok()) status = CheckTensor(problem, Tensor::kV, tensors.v, false);
  if (status.ok()) status = CheckTensor(problem, Tensor::kOut, tensors.out, traits.float32_out);
  if (status.ok()) status = CheckRowStat(problem, Tensor::kLse, tensors.lse);
  return status;
}

absl::Status CheckTensors(const Problem& problem, const Traits& traits,
                          const BackwardTensors& tensors) {
  const bool float32 = traits.float32_gradients;
  absl::Status status = CheckTensor(problem, Tensor::kQ, tensors.q, false);
  if (status.ok()) status = CheckTensor(problem, Tensor::kK, tensors.k, false);
  if (status.ok()) status = CheckTensor(problem, Tensor::kV, tensors.v, false);
  if (status.ok()) status = CheckTensor(problem, Tensor::kDOut, tensors.dout, false);
  if (status.ok()) status = CheckRowStat(problem, Tensor::kLse, tensors.lse);
  if (status.ok()) {
    status = traits.wants_delta
                 ? CheckRowStat(problem, Tensor::kDelta, tensors.delta)
                 : CheckTensor(problem, Tensor::kOut, tensors.out, traits.float32_out);
  }
  if (status.ok()) status = CheckTensor(problem, Tensor::kDQ, tensors.dq, float32);
  if (status.ok()) status = CheckTensor(problem, Tensor::kDK, tensors.dk, float32);
  if (status.ok()) status = CheckTensor(problem, Tensor::kDV, tensors.dv, float32);
  if (!status.ok() || !tensors.accumulate) return status;
  if (!traits.accumulates) {
    return absl::InvalidArgumentError("this kernel cannot add to gradients, only write them");
  }
  for (const TensorView* view : {&tensors.dq, &tensors.dk, &tensors.dv}) {
    if (view->dtype != DType::kFloat32) {
      return absl::InvalidArgumentError(
          fmt::format("gradients that are added to have to be fp32, not {}", Name(view->dtype)));
    }
  }
  return absl::OkStatus();
}

}  // namespace lcab
