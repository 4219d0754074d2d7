// cpu_reference behind traits of a test's choosing: how plans fare with kernels that can do less.

#ifndef LCAB_CP_TESTING_BORROWED_KERNEL_H_
#define LCAB_CP_TESTING_BORROWED_KERNEL_H_

#include <atomic>
#include <memory>
#include <string>

#include "kernels/kernel.h"

namespace lcab::cp {

class BorrowedKernel : public Kernel {
 public:
  // By default all that cpu_reference can do.
  BorrowedKernel();
  explicit BorrowedKernel(Traits traits);

  std::string name() const override { return "borrowed"; }
  std::string description() const override { return "cpu_reference with other traits"; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  absl::Status Supports(const Problem& problem, Pass pass, const Options& options,
                        const DeviceInfo& device) const override;
  Traits GetTraits(const Options&) const override { return traits_; }
  absl::StatusOr<Requirements> GetRequirements(const Problem& problem, Pass pass,
                                               const Options& options,
                                               const DeviceInfo& device) const override;
  // Without `wants_delta`, delta is computed from out inside, as such kernels do.
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem& problem, Pass pass,
                                                          const Options& options,
                                                          Device& device) const override;

  // How often Prepare() was called.
  int prepared() const { return prepared_; }

 private:
  const Kernel& kernel_;
  const Traits traits_;
  mutable std::atomic<int> prepared_ = 0;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_TESTING_BORROWED_KERNEL_H_
