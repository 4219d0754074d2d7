#include "cp/testing/borrowed_kernel.h"

#include <utility>
#include <vector>

#include "kernels/registry.h"

namespace lcab::cp {
namespace {

double Read(const TensorView& view, int64_t token, int64_t head, int64_t channel) {
  return view.dtype == DType::kFloat32 ? view.Row<float>(token, head)[channel]
                                       : ToFloat(view.Row<BFloat16>(token, head)[channel]);
}

class WithDelta : public PreparedKernel {
 public:
  explicit WithDelta(std::unique_ptr<PreparedKernel> kernel) : kernel_(std::move(kernel)) {}

  absl::Status Forward(const ForwardTensors& tensors, Stream& stream) override {
    return kernel_->Forward(tensors, stream);
  }

  absl::Status Backward(const BackwardTensors& tensors, Stream& stream) override {
    if (tensors.out.data == nullptr || tensors.delta.data != nullptr) {
      return absl::InvalidArgumentError("it wants out, not delta");
    }
    const TensorView& out = tensors.out;
    delta_.assign(static_cast<size_t>(out.tokens * out.heads), 0);
    for (int64_t head = 0; head < out.heads; ++head) {
      for (int64_t token = 0; token < out.tokens; ++token) {
        double sum = 0;
        for (int64_t d = 0; d < out.dim; ++d) {
          sum += Read(out, token, head, d) * Read(tensors.dout, token, head, d);
        }
        delta_[static_cast<size_t>(head * out.tokens + token)] = static_cast<float>(sum);
      }
    }
    BackwardTensors with_delta = tensors;
    with_delta.out = {};
    with_delta.delta = {
        .data = delta_.data(), .heads = out.heads, .tokens = out.tokens, .head_stride = out.tokens};
    return kernel_->Backward(with_delta, stream);
  }

 private:
  const std::unique_ptr<PreparedKernel> kernel_;
  std::vector<float> delta_;
};

const Kernel& Reference() { return *BuiltinKernels().Find("cpu_reference").value(); }

}  // namespace

BorrowedKernel::BorrowedKernel() : BorrowedKernel(Reference().GetTraits({})) {}
BorrowedKernel::BorrowedKernel(Traits traits) : kernel_(Reference()), traits_(traits) {}

absl::Status BorrowedKernel::Supports(const Problem& problem, Pass pass, const Options& options,
                                      const DeviceInfo& device) const {
  return kernel_.Supports(problem, pass, options, device);
}

absl::StatusOr<Requirements> BorrowedKernel::GetRequirements(const Problem&, Pass, const Options&,
                                                             const DeviceInfo&) const {
  return Requirements{.workspace_bytes = 1000, .schedule_bytes = 10};
}

absl::StatusOr<std::unique_ptr<PreparedKernel>> BorrowedKernel::Prepare(const Problem& problem,
                                                                        Pass pass,
                                                                        const Options& options,
                                                                        Device& device) const {
  ++prepared_;
  absl::StatusOr<std::unique_ptr<PreparedKernel>> kernel =
      kernel_.Prepare(problem, pass, options, device);
  if (!kernel.ok() || traits_.wants_delta) return kernel;
  return std::make_unique<WithDelta>(*std::move(kernel));
}

}  // namespace lcab::cp
