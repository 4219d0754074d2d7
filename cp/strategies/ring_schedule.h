// The schedule that ring strategies share: K and V travel around the ring while each rank attends
// to the shard it has; the backward pass sends them round again, and their gradients behind them.
// Ring attention: Liu et al., arXiv 2310.01889. Strategies differ in who owns which tokens.

#ifndef LCAB_CP_STRATEGIES_RING_SCHEDULE_H_
#define LCAB_CP_STRATEGIES_RING_SCHEDULE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "attention/tokens.h"
#include "cp/builder.h"
#include "cp/strategy.h"

namespace lcab::cp {

// The tokens of each rank.
struct RingShards {
  std::vector<TokenSet> q, k;
};

// Ok, or Unimplemented when the kernel cannot write the partial results of several ranks in fp32.
absl::Status SupportsRing(const PlanRequest& request);

// The plans, given the shards; the request is supported.
std::vector<RankPlan> MakeRingPlans(const PlanRequest& request, const RingShards& shards);

}  // namespace lcab::cp

#endif  // LCAB_CP_STRATEGIES_RING_SCHEDULE_H_
