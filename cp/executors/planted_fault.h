// Faults that tests plant in an executor, to see that verification finds them.

#ifndef LCAB_CP_EXECUTORS_PLANTED_FAULT_H_
#define LCAB_CP_EXECUTORS_PLANTED_FAULT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cp/plan.h"
#include "kernels/tensor.h"

namespace lcab::cp {

class PlantedFault {
 public:
  // "" plants nothing. InvalidArgument for a name that is none of ExecutorOptions::fault.
  static absl::StatusOr<PlantedFault> Create(std::string_view name, const RankPlan& plan);

  // Around each pass; `slab` is the rank's memory.
  void BeginPass(Pass pass, std::byte* slab);
  void EndPass(Pass pass, std::byte* slab) const;

  // "skip_merge": whether to leave this step of the forward pass out.
  bool SkipsStep(Pass pass, int step) const {
    return pass == Pass::kForward && step == skipped_step_;
  }
  // "stale_key": the K that an AttendBackward is to read in place of `k`, which is contiguous. The
  // K of the call before, when it has as many rows.
  TensorView KeyFor(const TensorView& k);

 private:
  bool stale_key_ = false;
  int skipped_step_ = -1;
  std::vector<std::byte> previous_key_, key_;
  // "drop_row": where the rows lie in the slab that the forward pass must leave as they were.
  std::vector<Interval> dropped_;
  std::vector<std::byte> kept_;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_PLANTED_FAULT_H_
