#include "cp/executors/host.h"

#include <span>
#include <utility>

#include "absl/status/status.h"
#include "cp/executors/device_steps.h"
#include "cp/executors/elementwise.h"
#include "cp/executors/plan_executor.h"
#include "cp/executors/watched_reads.h"

namespace lcab::cp {
namespace {

// Done in place, by the device's threads, when they are called.
class HostSteps : public DeviceSteps {
 public:
  explicit HostSteps(Workers& workers) : workers_(workers) {}

  absl::Status ComputeDelta(const Operand& out, const Operand& dout, const Operand& delta,
                            Stream&) override {
    cp::ComputeDelta(out, dout, delta, workers_);
    return absl::OkStatus();
  }
  absl::Status MergePart(const Operand& out, const Operand& lse, const Operand& part,
                         const Operand& part_lse, Stream&) override {
    cp::MergePart(out, lse, part, part_lse, workers_);
    return absl::OkStatus();
  }
  absl::Status AddTo(const Operand& to, const Operand& from, Stream&) override {
    cp::AddTo(to, from, workers_);
    return absl::OkStatus();
  }
  absl::Status CopyTo(const Operand& to, const Operand& from, Stream&) override {
    cp::CopyTo(to, from, workers_);
    return absl::OkStatus();
  }
  absl::Status FillWith(const Operand& to, float value, Stream&) override {
    cp::FillWith(to, value, workers_);
    return absl::OkStatus();
  }
  absl::Status Exchange(Communicator& communicator, std::span<const SendBuffer> sends,
                        std::span<const ReceiveBuffer> receives, absl::Time deadline,
                        Stream&) override {
    return communicator.Exchange(sends, receives, deadline);
  }
  absl::StatusOr<uint64_t> Digest(const TensorView& view, absl::Time, Stream&) override {
    return DigestOf(view, workers_);
  }

 private:
  Workers& workers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakeHostExecutor(const RankPlan& plan,
                                                           const ExecutorOptions& options) {
  if (options.device->workers() == nullptr) {
    return absl::InvalidArgumentError("the host executor needs a device with host threads");
  }
  return MakePlanExecutor(plan, options, std::make_unique<HostSteps>(*options.device->workers()));
}

}  // namespace lcab::cp
