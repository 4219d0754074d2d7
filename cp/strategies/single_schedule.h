// The plan of one rank, which computes everything in one Attend step a pass: a kernel benchmark,
// and what every strategy is on one rank.

#ifndef LCAB_CP_STRATEGIES_SINGLE_SCHEDULE_H_
#define LCAB_CP_STRATEGIES_SINGLE_SCHEDULE_H_

#include <vector>

#include "cp/plan.h"
#include "cp/strategy.h"

namespace lcab::cp {

// One plan; the request is for one rank.
std::vector<RankPlan> MakeSinglePlan(const PlanRequest& request);

}  // namespace lcab::cp

#endif  // LCAB_CP_STRATEGIES_SINGLE_SCHEDULE_H_
