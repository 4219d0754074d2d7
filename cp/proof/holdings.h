// Who holds what, before and after: every part of every tensor has one owner.

#ifndef LCAB_CP_PROOF_HOLDINGS_H_
#define LCAB_CP_PROOF_HOLDINGS_H_

#include <vector>

#include "absl/status/status.h"
#include "cp/plan.h"

namespace lcab::cp::proof {

// FailedPrecondition unless the plans are ranks 0, 1, ... of the same problems, and together hold
// every token and head of every input and output exactly once; V where K is, dOut, out and dQ where
// Q is, dK and dV where K and V are. LSE may lie anywhere. Each plan has passed CheckStructure().
absl::Status CheckHoldings(const std::vector<RankPlan>& plans);

}  // namespace lcab::cp::proof

#endif  // LCAB_CP_PROOF_HOLDINGS_H_
