// What workers tell: who they are, what happened to their assignments, that they came back. Every
// function is one step inside a change of the store.

#ifndef LCAB_COORDINATOR_REPORTS_H_
#define LCAB_COORDINATOR_REPORTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/effects.h"
#include "lcab/v1/fleet.pb.h"

namespace lcab::coordinator {

// A worker introduces itself. What it still runs goes on, also when it had been given up as lost
// and nothing has taken its place yet. Returns those that it is to stop.
std::vector<std::string> Greet(Step& step, const v1::Hello& hello);

// Loses what the store has running on the worker and the worker does not (it is not among
// `running`, its word at hello): after its unacknowledged events are stored.
void Reconcile(Step& step, std::string_view worker, const std::vector<std::string>& running);

// An event of an assignment, once: an event that was stored before changes nothing. One that makes
// no sense is ignored, or the worker would send it for ever; `remark` says why, and tells of
// samples that are missing.
void HandleEvent(Step& step, std::string_view worker, const v1::AssignmentEvent& event,
                 std::string& remark);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_REPORTS_H_
