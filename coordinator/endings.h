// How trials, attempts, assignments and jobs end: who is charged for a failure, what is tried
// again. Every function is one step inside a change of the store.
//
// The rules. A trial may be tried `max_attempts` times. An attempt counts from the moment it is
// claimed. When an assignment ends before all its trials have:
// - the trial at fault, where the workers name one, is charged; the others do not count the
// attempt;
// - otherwise those that had started are charged; where none had, and none was settled, all are.
// So each end of an assignment settles a trial or uses up an attempt, and every job ends.
// A fault of infrastructure is tried again, on another worker first; kernel faults and limits are
// results.

#ifndef LCAB_COORDINATOR_ENDINGS_H_
#define LCAB_COORDINATOR_ENDINGS_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "coordinator/assignment_table.h"
#include "coordinator/effects.h"
#include "coordinator/trial_table.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

// An attempt that came to this has settled its trial: trying again would show nothing new.
bool IsConclusive(const v1::TrialResult& result);

// Moves the trial to the end that the result says and tells watchers; ends the job if it was the
// last. `attempt` is 0 for a trial that ends without one.
void SettleTrial(Step& step, TrialRow& trial, int attempt, const v1::TrialResult& result,
                 std::string_view message);

// Ends an attempt of a trial; `to` is kEnded or kLost.
void EndAttempt(Step& step, const TrialRow& trial, AttemptRow& attempt, AttemptState to,
                v1::Outcome outcome, v1::Fault fault, std::string_view reason, bool counted);

// Moves the job on when none of its trials is pending or running any more.
void EndJobIfDone(Step& step, int64_t job);

// Tells all workers of a running assignment to stop and wakes its ranks. With a time in `stop_by`
// the workers' word is waited for until then, otherwise until it comes or they are lost.
void StopAssignment(Step& step, AssignmentRow& assignment, std::string_view reason, v1::Fault fault,
                    std::optional<absl::Time> stop_by);

// When the workers of a gang are waited for no longer: they had the grace to kill what is left.
absl::Time StopDeadline(const Step& step);

// Closes the assignment if no worker runs any of it.
void CloseIfDone(Step& step, AssignmentRow& assignment);

// Closes it although some workers have not answered (their devices stay in use until they do).
void CloseAssignment(Step& step, AssignmentRow& assignment);

// The worker's share is lost: the others are stopped.
void LoseShare(Step& step, AssignmentRow& assignment, const ShareRow& share,
               std::string_view reason);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_ENDINGS_H_
