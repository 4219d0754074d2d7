// The kernel calls of a plan: which distinct problems its Attend steps pose, what they need, and
// the kernels made ready for them, one for each.

#ifndef LCAB_CP_EXECUTORS_ATTEND_CALLS_H_
#define LCAB_CP_EXECUTORS_ATTEND_CALLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "cp/plan.h"
#include "device/device.h"
#include "kernels/kernel.h"

namespace lcab::cp {

class AttendCalls {
 public:
  // Finds the calls. Unimplemented, with the place of the step and the kernel's reason, when the
  // kernel cannot compute one of them.
  static absl::StatusOr<AttendCalls> Create(const RankPlan& plan, const Kernel& kernel,
                                            const Options& options, const DeviceInfo& device);

  // Workspace and schedules of all distinct calls.
  const Requirements& requirements() const { return requirements_; }
  // Makes a kernel ready for each distinct call.
  absl::Status Prepare(Device& device);

  // The kernel of an Attend or AttendBackward step; after Prepare().
  PreparedKernel& At(Pass pass, int step) const {
    const auto& of_step = pass == Pass::kForward ? forward_ : backward_;
    return *calls_[static_cast<size_t>(of_step[static_cast<size_t>(step)])].kernel;
  }

 private:
  struct Call {
    Pass pass;
    Problem problem;
    uint64_t mask_digest;
    std::unique_ptr<PreparedKernel> kernel;
  };

  AttendCalls(const Kernel& kernel, const Options& options) : kernel_(&kernel), options_(options) {}
  absl::Status AddStep(const RankPlan& plan, Pass pass, int step, const DeviceInfo& device);

  const Kernel* kernel_;
  Options options_;
  std::vector<Call> calls_;
  std::vector<int> forward_, backward_;  // the call of each step; -1: none
  Requirements requirements_;
};

// The problem that one step poses to a kernel: the target's heads, and the mask as these tokens
// see it.
Problem ProblemOf(const Problem& whole, const AttendTarget& target);

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_ATTEND_CALLS_H_
