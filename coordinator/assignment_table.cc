#include "coordinator/assignment_table.h"

#include <algorithm>

#include "fmt/format.h"

namespace lcab::coordinator {
namespace {

constexpr std::string_view kColumns =
    "id, name, job_id, cohort_id, state, devices, created, overdue, stop_by, reason, fault";

AssignmentRow ReadAssignment(const Rows& rows) {
  AssignmentRow row{.id = rows.Int(0),
                    .name = rows.Text(1),
                    .job = rows.Int(2),
                    .cohort = rows.Int(3),
                    .state = static_cast<AssignmentState>(rows.Int(4)),
                    .devices = static_cast<int>(rows.Int(5)),
                    .created = rows.Time(6),
                    .overdue = rows.Time(7),
                    .reason = rows.Text(9),
                    .fault = static_cast<v1::Fault>(rows.Int(10))};
  if (!rows.IsNull(8)) row.stop_by = rows.Time(8);
  return row;
}

constexpr std::string_view kAttemptColumns =
    "trial_id, number, assignment_id, state, counted, outcome, fault, reason, suspected";

AttemptRow ReadAttempt(const Rows& rows) {
  AttemptRow attempt{.trial = rows.Int(0),
                     .number = static_cast<int>(rows.Int(1)),
                     .assignment = rows.Int(2),
                     .state = static_cast<AttemptState>(rows.Int(3)),
                     .counted = rows.Int(4) != 0,
                     .outcome = static_cast<v1::Outcome>(rows.Int(5)),
                     .fault = static_cast<v1::Fault>(rows.Int(6)),
                     .reason = rows.Text(7)};
  if (!rows.IsNull(8)) rows.Parse(8, attempt.suspected.emplace());
  return attempt;
}

std::optional<AssignmentRow> ReadOne(Rows rows) {
  if (!rows.Next()) return std::nullopt;
  return ReadAssignment(rows);
}

std::vector<AssignmentRow> ReadAll(Rows rows) {
  std::vector<AssignmentRow> assignments;
  while (rows.Next()) assignments.push_back(ReadAssignment(rows));
  return assignments;
}

}  // namespace

AssignmentRow InsertAssignment(Connection& db, int64_t job, int64_t cohort, int devices,
                               const std::vector<RankRow>& ranks, absl::Time now,
                               absl::Time overdue) {
  AssignmentRow row{.job = job,
                    .cohort = cohort,
                    .state = AssignmentState::kRunning,
                    .devices = devices,
                    .created = now,
                    .overdue = overdue};
  // The id is known after the insertion; until then the name is one that nobody else has.
  db.Execute(
      "INSERT INTO assignments (name, job_id, cohort_id, state, devices, created, overdue) "
      "VALUES ('new', ?, ?, ?, ?, ?, ?)",
      {job, cohort, static_cast<int64_t>(row.state), devices, ToSql(now), ToSql(overdue)});
  row.id = db.last_insert_id();
  db.Execute(
      "UPDATE assignments SET name = 'assignments/' || id || '-' || "
      "(SELECT value FROM facts WHERE name = 'database_id') WHERE id = ?",
      {row.id});
  Rows rows = db.Query("SELECT name FROM assignments WHERE id = ?", {row.id});
  if (rows.Next()) row.name = rows.Text(0);
  for (const RankRow& rank : ranks) {
    db.Execute("INSERT OR IGNORE INTO shares (assignment_id, worker, state) VALUES (?, ?, ?)",
               {row.id, rank.worker, static_cast<int64_t>(ShareState::kRunning)});
    db.Execute("INSERT INTO ranks (assignment_id, rank, worker, device) VALUES (?, ?, ?, ?)",
               {row.id, rank.rank, rank.worker, rank.device});
  }
  return row;
}

std::optional<AssignmentRow> FindAssignment(Connection& db, std::string_view name) {
  static const std::string kSql =
      fmt::format("SELECT {} FROM assignments WHERE name = ?", kColumns);
  return ReadOne(db.Query(kSql, {name}));
}

std::optional<AssignmentRow> FindAssignment(Connection& db, int64_t id) {
  static const std::string kSql = fmt::format("SELECT {} FROM assignments WHERE id = ?", kColumns);
  return ReadOne(db.Query(kSql, {id}));
}

std::vector<AssignmentRow> LiveAssignments(Connection& db, int64_t job) {
  static const std::string kSql = fmt::format(
      "SELECT {} FROM assignments WHERE state IN (1, 2) AND (?1 = 0 OR job_id = ?1) "
      "ORDER BY job_id, id",
      kColumns);
  return ReadAll(db.Query(kSql, {job}));
}

std::vector<AssignmentRow> AssignmentsOnWorker(Connection& db, std::string_view worker) {
  static const std::string kSql = fmt::format(
      "SELECT {} FROM assignments WHERE id IN "
      "(SELECT assignment_id FROM shares WHERE worker = ? AND state = 1) ORDER BY id",
      kColumns);
  return ReadAll(db.Query(kSql, {worker}));
}

void MoveAssignment(Connection& db, AssignmentRow& assignment, AssignmentState to, absl::Time now) {
  const bool over = to == AssignmentState::kClosed || to == AssignmentState::kLost;
  const SqlValue ended = over ? SqlValue(ToSql(now)) : SqlValue(nullptr);
  if (!IsLegal(assignment.state, to) ||
      db.Execute("UPDATE assignments SET state = ?, ended = ? WHERE id = ? AND state = ?",
                 {static_cast<int64_t>(to), ended, assignment.id,
                  static_cast<int64_t>(assignment.state)}) != 1) {
    db.Fail(absl::InternalError(fmt::format("{} cannot go from {} to {}", assignment.name,
                                            Name(assignment.state), Name(to))));
  }
  assignment.state = to;
}

void MoveShare(Connection& db, int64_t assignment, const ShareRow& share, ShareState to,
               std::string_view reason, v1::Fault fault) {
  if (!IsLegal(share.state, to) ||
      db.Execute("UPDATE shares SET state = ?, reason = ?, fault = ? WHERE assignment_id = ? AND "
                 "worker = ? AND state = ?",
                 {static_cast<int64_t>(to), reason, fault, assignment, share.worker,
                  static_cast<int64_t>(share.state)}) != 1) {
    db.Fail(
        absl::InternalError(fmt::format("the share of {} in assignment {} cannot go from {} to {}",
                                        share.worker, assignment, Name(share.state), Name(to))));
  }
}

void SetReason(Connection& db, AssignmentRow& assignment, std::string_view reason,
               v1::Fault fault) {
  if (!assignment.reason.empty()) return;
  assignment.reason = reason;
  assignment.fault = fault;
  db.Execute("UPDATE assignments SET reason = ?, fault = ? WHERE id = ?",
             {reason, fault, assignment.id});
}

void SetStopBy(Connection& db, AssignmentRow& assignment, std::optional<absl::Time> stop_by) {
  assignment.stop_by = stop_by;
  const SqlValue time = stop_by.has_value() ? SqlValue(ToSql(*stop_by)) : SqlValue(nullptr);
  db.Execute("UPDATE assignments SET stop_by = ? WHERE id = ?", {time, assignment.id});
}

std::vector<ShareRow> SharesOf(Connection& db, int64_t assignment) {
  std::vector<ShareRow> shares;
  for (Rows rows = db.Query(
           "SELECT worker, state, reason, fault FROM shares WHERE assignment_id = ?", {assignment});
       rows.Next();) {
    shares.push_back({.worker = rows.Text(0),
                      .state = static_cast<ShareState>(rows.Int(1)),
                      .reason = rows.Text(2),
                      .fault = static_cast<v1::Fault>(rows.Int(3))});
  }
  return shares;
}

std::vector<RankRow> RanksOf(Connection& db, int64_t assignment) {
  std::vector<RankRow> ranks;
  for (Rows rows =
           db.Query("SELECT rank, worker, device FROM ranks WHERE assignment_id = ? ORDER BY "
                    "rank",
                    {assignment});
       rows.Next();) {
    ranks.push_back({static_cast<int>(rows.Int(0)), rows.Text(1), rows.Text(2)});
  }
  return ranks;
}

AttemptRow InsertAttempt(Connection& db, int64_t trial, int number, int64_t assignment,
                         absl::Time now) {
  db.Execute(
      "INSERT INTO attempts (trial_id, number, assignment_id, state, claimed) VALUES (?, ?, ?, ?, "
      "?)",
      {trial, number, assignment, static_cast<int64_t>(AttemptState::kClaimed), ToSql(now)});
  db.Execute("UPDATE trials SET attempts = ?, counted = counted + 1 WHERE id = ?", {number, trial});
  return {.trial = trial, .number = number, .assignment = assignment};
}

std::vector<AttemptRow> AttemptsOf(Connection& db, int64_t assignment) {
  static const std::string kSql = fmt::format(
      "SELECT {} FROM attempts WHERE assignment_id = ? ORDER BY trial_id", kAttemptColumns);
  std::vector<AttemptRow> attempts;
  for (Rows rows = db.Query(kSql, {assignment}); rows.Next();)
    attempts.push_back(ReadAttempt(rows));
  return attempts;
}

std::optional<AttemptRow> FindAttemptAt(Connection& db, int64_t assignment, int64_t trial) {
  static const std::string kSql = fmt::format(
      "SELECT {} FROM attempts WHERE trial_id = ? AND assignment_id = ?", kAttemptColumns);
  Rows rows = db.Query(kSql, {trial, assignment});
  if (!rows.Next()) return std::nullopt;
  return ReadAttempt(rows);
}

void UpdateAttempt(Connection& db, AttemptRow& attempt, AttemptState to, absl::Time now) {
  const bool over = to == AttemptState::kEnded || to == AttemptState::kLost;
  const SqlValue ended = over ? SqlValue(ToSql(now)) : SqlValue(nullptr);
  const std::string bytes =
      attempt.suspected.has_value() ? attempt.suspected->SerializeAsString() : std::string();
  const SqlValue suspected =
      attempt.suspected.has_value() ? SqlValue(Blob{bytes}) : SqlValue(nullptr);
  // Whether it counts is kept in the trial, too, where the limit is checked.
  db.Execute(
      "UPDATE trials SET counted = counted + ?1 - (SELECT counted FROM attempts WHERE trial_id "
      "= ?2 AND number = ?3) WHERE id = ?2",
      {attempt.counted ? 1 : 0, attempt.trial, attempt.number});
  if ((attempt.state != to && !IsLegal(attempt.state, to)) ||
      db.Execute("UPDATE attempts SET state = ?, counted = ?, outcome = ?, fault = ?, reason = ?, "
                 "ended = ?, suspected = ? WHERE trial_id = ? AND number = ? AND "
                 "state = ?",
                 {static_cast<int64_t>(to), attempt.counted ? 1 : 0, attempt.outcome, attempt.fault,
                  attempt.reason, ended, suspected, attempt.trial, attempt.number,
                  static_cast<int64_t>(attempt.state)}) != 1) {
    db.Fail(absl::InternalError(fmt::format("attempt {} of trial {} cannot go from {} to {}",
                                            attempt.number, attempt.trial, Name(attempt.state),
                                            Name(to))));
  }
  attempt.state = to;
}

std::vector<std::string> WorkersThatFailed(Connection& db, int64_t cohort) {
  std::vector<std::string> workers;
  for (Rows rows = db.Query("SELECT DISTINCT shares.worker FROM trials JOIN attempts ON "
                            "attempts.trial_id = trials.id "
                            "JOIN shares ON shares.assignment_id = attempts.assignment_id WHERE "
                            "trials.cohort_id = ? "
                            "AND trials.state = 1 AND attempts.fault = ? AND attempts.counted AND "
                            "attempts.state IN (3, "
                            "4) AND shares.fault = attempts.fault",
                            {cohort, v1::FAULT_INFRASTRUCTURE});
       rows.Next();) {
    workers.push_back(rows.Text(0));
  }
  return workers;
}

}  // namespace lcab::coordinator
