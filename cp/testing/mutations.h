// Small breaks of finished plans, for the test of the proof.

#ifndef LCAB_CP_TESTING_MUTATIONS_H_
#define LCAB_CP_TESTING_MUTATIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "cp/plan.h"

namespace lcab::cp {

enum class Break {
  kDropStep,
  kSwapSteps,  // neighbours
  kRepeatStep,
  kShiftRows,     // of one view by one, or cut by one where there is no room
  kChangeHeads,   // of one view, the same way
  kChangeBuffer,  // of one view, to another of the same shape
  kShiftTokens,   // of an Attend's queries or keys
  kChangeTargetHeads,
  kForgetDependency,
  kMoveStep,    // to another stream
  kChangePeer,  // of a message
  kSwapMessages,
  kDropMessage,
  kShareMemory,    // put one buffer where another lies
  kNarrowBuffer,   // fp32 to bf16
  kChangeHolding,  // the tokens or heads of an output
  kChangeFill,
};
inline constexpr int kBreaks = 17;
std::string Name(Break kind);

// Calls visit(what was broken, the broken plans) for every place where this can be done.
void ForEachBreak(
    const std::vector<RankPlan>& plans, Break kind,
    const std::function<void(const std::string& what, const std::vector<RankPlan>& broken)>& visit);

}  // namespace lcab::cp

#endif  // LCAB_CP_TESTING_MUTATIONS_H_
