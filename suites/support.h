// Whether a trial can run, as far as that is known before a device is asked.

#ifndef LCAB_SUITES_SUPPORT_H_
#define LCAB_SUITES_SUPPORT_H_

#include <cstdint>
#include <string>

#include "attention/parameters.h"
#include "attention/problem.h"
#include "cp/strategy.h"
#include "suites/catalogue.h"

namespace lcab::suites {

// What computes a problem in one trial. Pointers are never null.
struct Contender {
  Pass pass = Pass::kForward;
  const KernelEntry* kernel = nullptr;
  Options kernel_options;  // resolved
  const cp::Strategy* strategy = nullptr;
  Options strategy_options;  // resolved
  int32_t ranks = 1;
  int32_t ranks_per_device = 1;
  bool overlap = true;
};

// The request for a contender's plans, on one node.
cp::PlanRequest PlanRequestOf(const Problem& problem, const Contender& contender);

// Empty, or why the trial cannot run, for a reader who knows neither strategy nor kernel. A kernel
// that only workers have is theirs to judge.
std::string WhyUnsupported(const Problem& problem, const Contender& contender);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_SUPPORT_H_
