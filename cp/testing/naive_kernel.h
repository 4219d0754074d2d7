// The slowest possible kernel, for tests of plans: dense loops in fp64 over Mask::Allows(), with
// traits as the test wants them.

#ifndef LCAB_CP_TESTING_NAIVE_KERNEL_H_
#define LCAB_CP_TESTING_NAIVE_KERNEL_H_

#include <memory>
#include <string>

#include "kernels/kernel.h"

namespace lcab::cp {

class NaiveKernel : public Kernel {
 public:
  explicit NaiveKernel(Traits traits = {.wants_delta = true,
                                        .float32_out = true,
                                        .float32_gradients = true})
      : traits_(traits) {}

  std::string name() const override { return "naive"; }
  std::string description() const override { return "dense loops in fp64, for tests"; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  absl::Status Supports(const Problem&, Pass, const Options&, const DeviceInfo&) const override {
    return absl::OkStatus();
  }
  Traits GetTraits(const Options&) const override { return traits_; }
  absl::StatusOr<Requirements> GetRequirements(const Problem&, Pass, const Options&,
                                               const DeviceInfo&) const override {
    return Requirements{.workspace_bytes = 1000, .schedule_bytes = 10};
  }
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem& problem, Pass pass,
                                                          const Options&, Device&) const override;

 private:
  const Traits traits_;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_TESTING_NAIVE_KERNEL_H_
