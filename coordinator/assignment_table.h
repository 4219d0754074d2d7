// Assignments (one placement of a cohort), their shares (what one worker holds of one) and the
// attempts they make, in the store. Errors stick to the connection (see connection.h).

#ifndef LCAB_COORDINATOR_ASSIGNMENT_TABLE_H_
#define LCAB_COORDINATOR_ASSIGNMENT_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "coordinator/states.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

struct AssignmentRow {
  int64_t id = 0;
  std::string name;  // assignments/{id}-{database}: of this store and no other
  int64_t job = 0;
  int64_t cohort = 0;
  AssignmentState state = AssignmentState::kRunning;
  int devices = 0;
  absl::Time created;
  absl::Time overdue;
  std::optional<absl::Time> stop_by;
  std::string reason;
  v1::Fault fault = v1::FAULT_UNSPECIFIED;
};

struct ShareRow {
  std::string worker;
  ShareState state = ShareState::kRunning;
  std::string reason;
  v1::Fault fault = v1::FAULT_UNSPECIFIED;
};

struct RankRow {
  int rank = 0;
  std::string worker;
  std::string device;
};

struct AttemptRow {
  int64_t trial = 0;
  int number = 0;
  int64_t assignment = 0;
  AttemptState state = AttemptState::kClaimed;
  bool counted = true;
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
  v1::Fault fault = v1::FAULT_UNSPECIFIED;
  std::string reason;
  // A failure that one worker reported while others of the gang might know better.
  std::optional<v1::TrialResult> suspected;
};

// Running, with a running share for each worker of `ranks`.
AssignmentRow InsertAssignment(Connection& db, int64_t job, int64_t cohort, int devices,
                               const std::vector<RankRow>& ranks, absl::Time now,
                               absl::Time overdue);
std::optional<AssignmentRow> FindAssignment(Connection& db, std::string_view name);
std::optional<AssignmentRow> FindAssignment(Connection& db, int64_t id);
// Running and stopping ones; of one job, or of all (0).
std::vector<AssignmentRow> LiveAssignments(Connection& db, int64_t job);
// Those with a running share on this worker, whatever their own state.
std::vector<AssignmentRow> AssignmentsOnWorker(Connection& db, std::string_view worker);

// Both fail the transaction (Internal) on a move that is not in the table.
void MoveAssignment(Connection& db, AssignmentRow& assignment, AssignmentState to, absl::Time now);
void MoveShare(Connection& db, int64_t assignment, const ShareRow& share, ShareState to,
               std::string_view reason, v1::Fault fault);

// Why the assignment ends; the first reason stays.
void SetReason(Connection& db, AssignmentRow& assignment, std::string_view reason, v1::Fault fault);
void SetStopBy(Connection& db, AssignmentRow& assignment, std::optional<absl::Time> stop_by);

std::vector<ShareRow> SharesOf(Connection& db, int64_t assignment);
std::vector<RankRow> RanksOf(Connection& db, int64_t assignment);

// Claimed, as the next attempt of the trial; counted.
AttemptRow InsertAttempt(Connection& db, int64_t trial, int number, int64_t assignment,
                         absl::Time now);
std::vector<AttemptRow> AttemptsOf(Connection& db, int64_t assignment);
std::optional<AttemptRow> FindAttemptAt(Connection& db, int64_t assignment, int64_t trial);
// Moves and stores all fields; fails the transaction (Internal) on a move that is not in the table.
// The state may stay.
void UpdateAttempt(Connection& db, AttemptRow& attempt, AttemptState to, absl::Time now);

// The workers at fault in attempts of the cohort's pending trials that failed for infrastructure.
std::vector<std::string> WorkersThatFailed(Connection& db, int64_t cohort);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_ASSIGNMENT_TABLE_H_
