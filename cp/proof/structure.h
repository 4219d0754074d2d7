// What can be said of one rank's plan without running it: indices, shapes, types.

#ifndef LCAB_CP_PROOF_STRUCTURE_H_
#define LCAB_CP_PROOF_STRUCTURE_H_

#include <vector>

#include "absl/status/status.h"
#include "cp/plan.h"

namespace lcab::cp::proof {

struct Access {
  const View* view;
  bool writes;
};
// What an action reads and writes, in the order of its fields; operands that are not used or empty
// are left out. What it updates in place is there twice.
std::vector<Access> AccessesOf(const Action& action);

// Whether two parts of a plan's memory share a byte, at the least by buffers that do.
bool SharesMemory(const RankPlan& plan, const View& a, const View& b);

// FailedPrecondition unless every index, shape and dtype of the rank's plan fits, messages are
// contiguous, communicators keep to one stream, steps wait only for earlier ones and do not
// overwrite their own operands.
absl::Status CheckStructure(const RankPlan& plan);

}  // namespace lcab::cp::proof

#endif  // LCAB_CP_PROOF_STRUCTURE_H_
