// From the store to the scheduler and back: what waits and runs, and the claim of what is placed.
// Every function is one step inside a change of the store.

#ifndef LCAB_COORDINATOR_PLACING_H_
#define LCAB_COORDINATOR_PLACING_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "coordinator/effects.h"
#include "coordinator/scheduler.h"

namespace lcab::coordinator {

// The workers with what the store knows of them: which devices are in use, who is draining.
std::vector<WorkerView> WithUse(Connection& db, std::vector<WorkerView> workers);

// What the scheduler needs to know. `workers` are the connected ones, whose devices' use and
// draining are filled in here; `heard` is when each worker was last heard of, `started` when this
// process began to listen: workers that hold assignments and were not heard of since count from
// then.
ScheduleState LoadScheduleState(Connection& db, std::vector<WorkerView> workers,
                                const std::map<std::string, absl::Time>& heard, absl::Time started);

// Claims the trials: from here on they count as attempts. Fails the change when they are not
// pending.
void Claim(Step& step, const Placement& placement);

// Carries out the decisions in the order lost, stop, close, give_up, placements.
void Apply(Step& step, const ScheduleDecisions& decisions);

// The assignments whose ranks meet: for a coordinator that starts.
std::vector<std::string> AssignmentsThatMeet(Connection& db);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_PLACING_H_
