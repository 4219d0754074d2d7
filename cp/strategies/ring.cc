// `ring`: each rank owns one range of tokens, and K and V travel around the ring.

#include <memory>
#include <string>
#include <vector>

#include "cp/bytes.h"
#include "cp/sharding.h"
#include "cp/strategies/ring_schedule.h"
#include "cp/strategy.h"

namespace lcab::cp {
namespace {

class Ring : public Strategy {
 public:
  std::string name() const override { return "ring"; }
  std::string description() const override {
    return "K and V travel around a ring of ranks; each owns one contiguous range of tokens";
  }
  int64_t BytesSent(const PlanRequest& request, int rank, Pass pass) const override {
    return RingBytesSent(request.problem, request.topology.ranks, rank, pass);
  }

 private:
  absl::Status DoSupports(const PlanRequest& request) const override {
    return SupportsRing(request);
  }
  std::vector<RankPlan> DoMakePlans(const PlanRequest& request) const override {
    const int ranks = request.topology.ranks;
    return MakeRingPlans(request, {.q = ShardContiguous(request.problem.q_tokens(), ranks),
                                   .k = ShardContiguous(request.problem.k_tokens(), ranks)});
  }
};

}  // namespace

void Register_ring(StrategyRegistry& registry) { registry.Add(std::make_unique<Ring>()); }

}  // namespace lcab::cp
