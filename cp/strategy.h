// A strategy: one way for P ranks to share a problem. It is a pure function from (problem,
// topology, parameters) to one plan a rank, with the formula of the bytes it sends beside it.
//
// To add one: a file in cp/strategies/ with `void Register_<name>(StrategyRegistry&)`, its test,
// and one line of CMake, `lcab_strategy(<name> ...)`.

#ifndef LCAB_CP_STRATEGY_H_
#define LCAB_CP_STRATEGY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "cp/plan.h"

namespace lcab::cp {

// How ranks are placed. Node n holds ranks [n * ranks_per_node, (n + 1) * ranks_per_node).
struct Topology {
  int ranks = 1;
  int ranks_per_node = 1;
};

// What the kernel that will run the plan can do; plans adapt their buffers to it.
struct PlanTraits {
  bool float32_partials = true;  // kernel can write partial out in fp32
  bool float32_gradients =
      true;                 // kernel can write gradients in fp32, each of dQ, dK, dV on its own
  bool wants_delta = true;  // backward reads delta; else the final out
};

struct PlanRequest {
  Problem problem;
  Topology topology;
  Options options;  // resolved
  PlanTraits kernel;
  bool backward = false;  // plan the backward pass too
  bool overlap = true;    // communication on streams of its own; else everything on one
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  virtual std::vector<Parameter> parameters() const { return {}; }

  // Ok, or Unimplemented with the reason (say, that the ranks do not divide the heads).
  // InvalidArgument for a problem or topology that makes no sense under any strategy.
  absl::Status Supports(const PlanRequest& request) const;
  // All ranks' plans, memory assigned and dependencies derived. Fails as Supports() does.
  absl::StatusOr<std::vector<RankPlan>> MakePlans(const PlanRequest& request) const;
  // Payload bytes that `rank` sends in a pass, by formula (docs/strategies.md), padding included,
  // for a request that is supported. Uses no code of the plans.
  virtual int64_t BytesSent(const PlanRequest& request, int rank, Pass pass) const = 0;

 private:
  // For valid requests: Unimplemented with the reason, or Ok.
  virtual absl::Status DoSupports(const PlanRequest& request) const = 0;
  // For supported requests.
  virtual std::vector<RankPlan> DoMakePlans(const PlanRequest& request) const = 0;
};

class StrategyRegistry {
 public:
  // A name that is taken is a fault of the build: the program ends and says so.
  void Add(std::unique_ptr<Strategy> strategy);
  // NotFound names the nearest strategy.
  absl::StatusOr<const Strategy*> Find(std::string_view name) const;
  // In order of name.
  std::vector<const Strategy*> List() const;

 private:
  std::map<std::string, std::unique_ptr<Strategy>, std::less<>> strategies_;
};

// A registry with every strategy that is linked in. `single` is the plan of one rank with one
// Attend step: a kernel benchmark.
const StrategyRegistry& BuiltinStrategies();

}  // namespace lcab::cp

#endif  // LCAB_CP_STRATEGY_H_
