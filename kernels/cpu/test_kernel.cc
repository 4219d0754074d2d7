#include "kernels/cpu/test_kernel.h"

#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "kernels/cpu/tiled_kernel.h"
#include "kernels/cpu/tiled_simd.h"

namespace lcab {
namespace {

class PreparedTestKernel : public PreparedKernel {
 public:
  PreparedTestKernel(std::unique_ptr<Fault> fault, std::unique_ptr<PreparedKernel> tiled)
      : fault_(std::move(fault)), tiled_(std::move(tiled)) {}

  absl::Status Forward(const ForwardTensors& tensors, Stream& stream) override {
    return stream.Enqueue([this, tensors]() -> absl::Status {
      const absl::StatusOr<bool> go_on = fault_->BeforeForward(++calls_, tensors);
      if (!go_on.ok() || !*go_on) return go_on.status();
      if (absl::Status status = tiled_->Forward(tensors, inline_); !status.ok()) return status;
      fault_->AfterForward(tensors);
      return absl::OkStatus();
    });
  }

  absl::Status Backward(const BackwardTensors& tensors, Stream& stream) override {
    return stream.Enqueue([this, tensors]() -> absl::Status {
      const absl::StatusOr<bool> go_on = fault_->BeforeBackward(++calls_, tensors);
      if (!go_on.ok() || !*go_on) return go_on.status();
      if (absl::Status status = tiled_->Backward(tensors, inline_); !status.ok()) return status;
      fault_->AfterBackward(tensors);
      return absl::OkStatus();
    });
  }

 private:
  // The wrapped call runs where this one runs: in the stream's thread already.
  class HereAndNow : public Stream {
   public:
    absl::Status Synchronize(absl::Time /*deadline*/) override { return absl::OkStatus(); }
    absl::Status Enqueue(std::function<absl::Status()> work) override { return work(); }
  };

  std::unique_ptr<Fault> fault_;
  std::unique_ptr<PreparedKernel> tiled_;
  HereAndNow inline_;
  int64_t calls_ = 0;
};

class TestKernel : public Kernel {
 public:
  explicit TestKernel(FaultType type)
      : type_(std::move(type)), tiled_(MakeTiledKernel("cpu_tiled", BestTiledSimd())) {}

  std::string name() const override { return type_.name; }
  std::string description() const override { return type_.description; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  std::vector<Parameter> parameters() const override { return type_.parameters; }
  bool hidden() const override { return true; }

  absl::Status Supports(const Problem& problem, Pass pass, const Options& options,
                        const DeviceInfo& device) const override {
    absl::StatusOr<Problem> distorted = type_.make(options)->Distort(problem);
    if (!distorted.ok()) return distorted.status();
    return tiled_->Supports(*distorted, pass, {}, device);
  }
  Traits GetTraits(const Options& /*options*/) const override { return tiled_->GetTraits({}); }

  absl::StatusOr<Requirements> GetRequirements(const Problem& problem, Pass pass,
                                               const Options& options,
                                               const DeviceInfo& device) const override {
    absl::StatusOr<Problem> distorted = type_.make(options)->Distort(problem);
    if (!distorted.ok()) return distorted.status();
    return tiled_->GetRequirements(*distorted, pass, {}, device);
  }

  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem& problem, Pass pass,
                                                          const Options& options,
                                                          Device& device) const override {
    std::unique_ptr<Fault> fault = type_.make(options);
    absl::StatusOr<Problem> distorted = fault->Distort(problem);
    if (!distorted.ok()) return distorted.status();
    if (absl::Status status = fault->OnPrepare(); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<PreparedKernel>> tiled =
        tiled_->Prepare(*distorted, pass, {}, device);
    if (!tiled.ok()) return tiled.status();
    return std::unique_ptr<PreparedKernel>(
        std::make_unique<PreparedTestKernel>(std::move(fault), *std::move(tiled)));
  }

 private:
  const FaultType type_;
  const std::unique_ptr<Kernel> tiled_;
};

}  // namespace

std::unique_ptr<Kernel> MakeTestKernel(FaultType type) {
  return std::make_unique<TestKernel>(std::move(type));
}

void Register_test_kernels(KernelRegistry& registry) {
  for (auto family : {ProgramFaults, ResultFaults}) {
    for (FaultType& type : family()) registry.AddBuiltin(MakeTestKernel(std::move(type)));
  }
}

}  // namespace lcab
