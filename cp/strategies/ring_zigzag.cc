// `ring_zigzag`: the ring over zigzag shards, which give every rank equal work in every step under
// causal masks.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cp/bytes.h"
#include "cp/sharding.h"
#include "cp/strategies/ring_schedule.h"
#include "cp/strategy.h"

namespace lcab::cp {
namespace {

class RingZigzag : public Strategy {
 public:
  std::string name() const override { return "ring_zigzag"; }
  std::string description() const override {
    return "the ring, with an early and a late part of the sequence (or of each document) on each "
           "rank: equal work under causal masks";
  }
  std::vector<Parameter> parameters() const override {
    return {{.name = "per",
             .kind = ParameterKind::kText,
             .default_value = Value{std::string("sequence")},
             .description = "what is cut into chunks: the whole sequence, or each document that "
                            "the mask keeps apart",
             .choices = {"sequence", "document"}}};
  }
  int64_t BytesSent(const PlanRequest& request, int rank, Pass pass) const override {
    return RingBytesSent(request.problem, request.topology.ranks, rank, pass);
  }

 private:
  absl::Status DoSupports(const PlanRequest& request) const override {
    return SupportsRing(request);
  }
  std::vector<RankPlan> DoMakePlans(const PlanRequest& request) const override {
    const Mask& mask = *request.problem.mask;
    const Documents documents = GetText(request.options, "per") == "document"
                                    ? FindDocuments(mask)
                                    : Documents{{mask.q_tokens()}, {mask.k_tokens()}};
    const int ranks = request.topology.ranks;
    return MakeRingPlans(request, {.q = ShardZigzag(documents.q_lengths, ranks),
                                   .k = ShardZigzag(documents.k_lengths, ranks)});
  }
};

}  // namespace

void Register_ring_zigzag(StrategyRegistry& registry) {
  registry.Add(std::make_unique<RingZigzag>());
}

}  // namespace lcab::cp
