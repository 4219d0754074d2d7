// `single`: one rank computes everything. A kernel benchmark is this strategy.

#include <memory>
#include <string>
#include <vector>

#include "cp/strategies/single_schedule.h"
#include "cp/strategy.h"
#include "fmt/format.h"

namespace lcab::cp {
namespace {

class Single : public Strategy {
 public:
  std::string name() const override { return "single"; }
  std::string description() const override {
    return "one rank computes everything: the benchmark of a kernel";
  }
  int64_t BytesSent(const PlanRequest&, int, Pass) const override { return 0; }

 private:
  absl::Status DoSupports(const PlanRequest& request) const override {
    if (request.topology.ranks == 1) return absl::OkStatus();
    return absl::UnimplementedError(
        fmt::format("`single` is the plan of one rank and cannot share a problem among {}; choose "
                    "a strategy such as ring or ulysses",
                    request.topology.ranks));
  }
  std::vector<RankPlan> DoMakePlans(const PlanRequest& request) const override {
    return MakeSinglePlan(request);
  }
};

}  // namespace

void Register_single(StrategyRegistry& registry) { registry.Add(std::make_unique<Single>()); }

}  // namespace lcab::cp
