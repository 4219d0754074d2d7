// Faults that tests plant in an executor, to see that verification finds them.

#ifndef LCAB_CP_EXECUTORS_PLANTED_FAULT_H_
#define LCAB_CP_EXECUTORS_PLANTED_FAULT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cp/plan.h"
#include "device/device.h"
#include "kernels/tensor.h"

namespace lcab::cp {

class PlantedFault {
 public:
  // "" plants nothing. InvalidArgument for a name that is none of ExecutorOptions::fault.
  static absl::StatusOr<PlantedFault> Create(std::string_view name, const RankPlan& plan);

  // Allocates what the fault needs beside the plan.
  absl::Status Prepare(Device& device);

  // Around each pass, on the device's compute stream; `slab` is the rank's memory.
  absl::Status BeginPass(Pass pass, std::byte* slab, Device& device);
  absl::Status EndPass(Pass pass, std::byte* slab, Device& device) const;

  // "skip_merge": whether to leave this step of the forward pass out.
  bool SkipsStep(Pass pass, int step) const {
    return pass == Pass::kForward && step == skipped_step_;
  }
  // "stale_key": the K that an AttendBackward on `stream` is to read in place of `k`, which is
  // contiguous. The K of the call before, when it has as many rows.
  absl::StatusOr<TensorView> KeyFor(const TensorView& k, Device& device, Stream& stream);

 private:
  bool stale_key_ = false;
  int skipped_step_ = -1;
  // Room for the largest K, of this call and of the one before.
  int64_t key_bytes_ = 0;
  Memory key_, previous_key_;
  int64_t used_ = 0, previous_used_ = 0;
  // "drop_row": where the rows lie in the slab that the forward pass must leave as they were.
  std::vector<Interval> dropped_;
  Memory kept_;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_PLANTED_FAULT_H_
