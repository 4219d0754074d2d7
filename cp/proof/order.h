// The order of steps: races between a rank's streams, and what ranks wait for.

#ifndef LCAB_CP_PROOF_ORDER_H_
#define LCAB_CP_PROOF_ORDER_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "cp/plan.h"

namespace lcab::cp::proof {

// FailedPrecondition when two steps of different streams use the same memory, one of them writing,
// and nothing orders them.
absl::Status CheckRaces(const RankPlan& plan, Pass pass);

// One message of an exchange, and the one it meets on the other side.
struct MessageEnd {
  int rank = 0;
  int step = 0;
  int index = 0;  // into the exchange's sends or receives
};
struct Delivery {
  MessageEnd from, to;
};

// Called when a step may run; an exchange runs when all ranks have come to the other sides of its
// messages, and is given what it receives.
using StepRunner =
    std::function<absl::Status(int rank, int step, const std::vector<Delivery>& received)>;

// Lets all ranks go through the pass, each step in the order that its plan allows, exchanges as
// rendezvous: neither side leaves before the other has come. With `collapsed`, each rank runs its
// steps on one stream, in program order. FailedPrecondition names a step that waits for ever, and
// for whom; also when two sides of a message differ.
absl::Status Schedule(const std::vector<RankPlan>& plans, Pass pass, bool collapsed,
                      const StepRunner& run);

}  // namespace lcab::cp::proof

#endif  // LCAB_CP_PROOF_ORDER_H_
