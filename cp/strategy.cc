#include "cp/strategy.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cp/register_all.h"
#include "fmt/format.h"

namespace lcab::cp {

absl::Status Strategy::Supports(const PlanRequest& request) const {
  if (request.topology.ranks < 1 || request.topology.ranks_per_node < 1) {
    return absl::InvalidArgumentError(fmt::format("{} ranks, {} a node: both must be at least 1",
                                                  request.topology.ranks,
                                                  request.topology.ranks_per_node));
  }
  if (absl::Status s = Validate(request.problem); !s.ok()) return s;
  return DoSupports(request);
}

absl::StatusOr<std::vector<RankPlan>> Strategy::MakePlans(const PlanRequest& request) const {
  if (absl::Status s = Supports(request); !s.ok()) return s;
  return DoMakePlans(request);
}

void StrategyRegistry::Add(std::unique_ptr<Strategy> strategy) {
  std::string name = strategy->name();
  const bool added = strategies_.try_emplace(name, std::move(strategy)).second;
  if (added) return;
  fmt::print(stderr, "two strategies are named '{}'; rename one\n", name);
  std::abort();
}

absl::StatusOr<const Strategy*> StrategyRegistry::Find(std::string_view name) const {
  const auto found = strategies_.find(name);
  if (found != strategies_.end()) return found->second.get();
  std::vector<std::string> names;
  for (const auto& [known, strategy] : strategies_) names.push_back(known);
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(
      nearest.empty() ? fmt::format("no strategy '{}'; there are: {}", name, fmt::join(names, ", "))
                      : fmt::format("no strategy '{}'; did you mean '{}'?", name, nearest));
}

std::vector<const Strategy*> StrategyRegistry::List() const {
  std::vector<const Strategy*> list;
  for (const auto& [name, strategy] : strategies_) list.push_back(strategy.get());
  return list;
}

const StrategyRegistry& BuiltinStrategies() {
  static const StrategyRegistry registry = [] {
    StrategyRegistry builtin;
    RegisterBuiltinStrategies(builtin);
    return builtin;
  }();
  return registry;
}

}  // namespace lcab::cp
