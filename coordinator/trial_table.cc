#include "coordinator/trial_table.h"

#include <limits>
#include <string_view>

#include "coordinator/resource_names.h"
#include "fmt/format.h"
#include "proto/proto_time.h"
#include "suites/enum_names.h"

namespace lcab::coordinator {
namespace {

constexpr std::string_view kColumns =
    "id, job_id, number, cohort_id, position, state, outcome, attempts, counted, kernel, mask, "
    "strategy, pass";

TrialRow ReadTrial(const Rows& rows) {
  return {.id = rows.Int(0),
          .job = rows.Int(1),
          .number = rows.Int(2),
          .cohort = rows.Int(3),
          .position = static_cast<int>(rows.Int(4)),
          .state = static_cast<TrialState>(rows.Int(5)),
          .outcome = static_cast<v1::Outcome>(rows.Int(6)),
          .attempts = static_cast<int>(rows.Int(7)),
          .counted = static_cast<int>(rows.Int(8)),
          .kernel = rows.Text(9),
          .mask = rows.Text(10),
          .strategy = rows.Text(11),
          .pass = static_cast<v1::Pass>(rows.Int(12))};
}

std::optional<TrialRow> ReadOne(Rows rows) {
  if (!rows.Next()) return std::nullopt;
  return ReadTrial(rows);
}

std::vector<TrialRow> ReadTrials(Rows rows) {
  std::vector<TrialRow> trials;
  while (rows.Next()) trials.push_back(ReadTrial(rows));
  return trials;
}

// The column of jobs that counts trials like this one.
std::string Count(TrialState state, v1::Outcome outcome) {
  return state == TrialState::kCompleted ? suites::Name(outcome) : std::string(Name(state));
}

}  // namespace

int64_t InsertCohort(Connection& db, int64_t job, const v1::CohortSpec& spec, int64_t number,
                     absl::Time now) {
  db.Execute(
      "INSERT INTO cohorts (job_id, ranks, ranks_per_device, waiting_since) VALUES (?, ?, ?, ?)",
      {job, spec.ranks(), spec.ranks_per_device(), ToSql(now)});
  const int64_t cohort = db.last_insert_id();
  for (int position = 0; position < spec.trials_size(); ++position) {
    const v1::TrialSpec& trial = spec.trials(position);
    const std::string bytes = trial.SerializeAsString();
    db.Execute(
        "INSERT INTO trials (job_id, number, cohort_id, position, state, spec, kernel, mask, "
        "strategy, pass, ranks, seq_len, timeout) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        {job, number + position, cohort, position, static_cast<int64_t>(TrialState::kPending),
         Blob{bytes}, trial.kernel().name(), trial.problem().mask().name(), trial.strategy().name(),
         trial.pass(), trial.ranks(), trial.problem().q_tokens(),
         absl::ToInt64Microseconds(FromProto(trial.measure().timeout()))});
  }
  return cohort;
}

std::optional<TrialRow> FindTrial(Connection& db, int64_t id) {
  static const std::string kSql = fmt::format("SELECT {} FROM trials WHERE id = ?", kColumns);
  return ReadOne(db.Query(kSql, {id}));
}

std::optional<TrialRow> FindTrialAt(Connection& db, int64_t cohort, int position) {
  static const std::string kSql =
      fmt::format("SELECT {} FROM trials WHERE cohort_id = ? AND position = ?", kColumns);
  return ReadOne(db.Query(kSql, {cohort, position}));
}

std::optional<TrialRow> FindTrialNumber(Connection& db, int64_t job, int64_t number) {
  static const std::string kSql =
      fmt::format("SELECT {} FROM trials WHERE job_id = ? AND number = ?", kColumns);
  return ReadOne(db.Query(kSql, {job, number}));
}

std::vector<TrialRow> TrialsOfCohort(Connection& db, int64_t cohort) {
  static const std::string kSql =
      fmt::format("SELECT {} FROM trials WHERE cohort_id = ? ORDER BY position", kColumns);
  return ReadTrials(db.Query(kSql, {cohort}));
}

std::vector<TrialRow> TrialsOfJob(Connection& db, int64_t job) {
  static const std::string kSql =
      fmt::format("SELECT {} FROM trials WHERE job_id = ? ORDER BY number", kColumns);
  return ReadTrials(db.Query(kSql, {job}));
}

void MoveTrial(Connection& db, TrialRow& trial, TrialState to, v1::Outcome outcome) {
  if (to == TrialState::kLost) outcome = v1::OUTCOME_LOST;
  if (to == TrialState::kCancelled) outcome = v1::OUTCOME_CANCELLED;
  if (!IsLegal(trial.state, to) || HasEnded(to) != (outcome != v1::OUTCOME_UNSPECIFIED)) {
    db.Fail(absl::InternalError(fmt::format("{} cannot go from {} to {}",
                                            TrialName(trial.job, trial.number), Name(trial.state),
                                            Name(to))));
    return;
  }
  if (db.Execute(
          "UPDATE trials SET state = ?, outcome = ? WHERE id = ? AND state = ?",
          {static_cast<int64_t>(to), outcome, trial.id, static_cast<int64_t>(trial.state)}) != 1) {
    db.Fail(absl::InternalError(
        fmt::format("{} is not {}", TrialName(trial.job, trial.number), Name(trial.state))));
    return;
  }
  const std::string left = Count(trial.state, trial.outcome);
  const std::string entered = Count(to, outcome);
  db.Execute(
      fmt::format("UPDATE jobs SET {0} = {0} - 1, {1} = {1} + 1 WHERE id = ?", left, entered),
      {trial.job});
  trial.state = to;
  trial.outcome = outcome;
}

void StoreResult(Connection& db, const TrialRow& trial, int attempt,
                 const v1::TrialResult& result) {
  const std::string bytes = result.SerializeAsString();
  db.Execute("INSERT OR REPLACE INTO results (trial_id, attempt, result) VALUES (?, ?, ?)",
             {trial.id, attempt, Blob{bytes}});
}

void RemoveResult(Connection& db, const TrialRow& trial) {
  db.Execute("DELETE FROM results WHERE trial_id = ?", {trial.id});
}

v1::TrialSpec LoadSpec(Connection& db, int64_t trial) {
  v1::TrialSpec spec;
  Rows rows = db.Query("SELECT spec FROM trials WHERE id = ?", {trial});
  if (rows.Next()) rows.Parse(0, spec);
  return spec;
}

v1::CohortSpec LoadCohort(Connection& db, int64_t cohort) {
  v1::CohortSpec spec;
  {
    Rows rows = db.Query("SELECT ranks, ranks_per_device FROM cohorts WHERE id = ?", {cohort});
    if (rows.Next()) {
      spec.set_ranks(static_cast<int>(rows.Int(0)));
      spec.set_ranks_per_device(static_cast<int>(rows.Int(1)));
    }
  }
  for (Rows rows =
           db.Query("SELECT spec FROM trials WHERE cohort_id = ? ORDER BY position", {cohort});
       rows.Next();) {
    rows.Parse(0, *spec.add_trials());
  }
  return spec;
}

std::optional<v1::TrialResult> LoadResult(Connection& db, int64_t trial) {
  Rows rows = db.Query("SELECT result FROM results WHERE trial_id = ?", {trial});
  if (!rows.Next()) return std::nullopt;
  v1::TrialResult result;
  rows.Parse(0, result);
  return result;
}

v1::Trial LoadTrial(Connection& db, int64_t trial) {
  v1::Trial loaded;
  {
    Rows rows = db.Query("SELECT job_id, number, state, spec FROM trials WHERE id = ?", {trial});
    if (!rows.Next()) return loaded;
    loaded.set_name(TrialName(rows.Int(0), rows.Int(1)));
    loaded.set_state(ForApi(static_cast<TrialState>(rows.Int(2))));
    rows.Parse(3, *loaded.mutable_spec());
  }
  if (auto result = LoadResult(db, trial); result.has_value()) {
    *loaded.mutable_result() = *std::move(result);
  }
  for (Rows rows =
           db.Query("SELECT number, assignment_id, counted, outcome, fault, reason, claimed, "
                    "ended FROM attempts WHERE trial_id = ? ORDER BY number",
                    {trial});
       rows.Next();) {
    v1::Attempt& attempt = *loaded.add_attempts();
    attempt.set_number(static_cast<int>(rows.Int(0)));
    attempt.set_counted(rows.Int(2) != 0);
    attempt.set_outcome(static_cast<v1::Outcome>(rows.Int(3)));
    attempt.set_fault(static_cast<v1::Fault>(rows.Int(4)));
    attempt.set_reason(rows.Text(5));
    *attempt.mutable_start_time() = ToProto(rows.Time(6));
    if (!rows.IsNull(7)) *attempt.mutable_end_time() = ToProto(rows.Time(7));
    for (Rows workers = db.Query("SELECT worker FROM shares WHERE assignment_id = ? ORDER BY "
                                 "(SELECT MIN(rank) FROM ranks WHERE ranks.assignment_id = "
                                 "shares.assignment_id AND ranks.worker = shares.worker)",
                                 {rows.Int(1)});
         workers.Next();) {
      attempt.add_workers(workers.Text(0));
    }
  }
  return loaded;
}

std::vector<int64_t> TrialIdsOfJob(Connection& db, int64_t job, int64_t after, int limit) {
  std::vector<int64_t> ids;
  for (Rows rows = db.Query("SELECT id FROM trials WHERE job_id = ? AND number > ? ORDER BY number "
                            "LIMIT ?",
                            {job, after, limit});
       rows.Next();) {
    ids.push_back(rows.Int(0));
  }
  return ids;
}

std::vector<ResultRow> FindResults(Connection& db, const v1::ResultFilter& filter,
                                   int64_t filter_job, int64_t job, int64_t number, int limit) {
  if (job == 0) job = std::numeric_limits<int64_t>::max();
  std::vector<ResultRow> found;
  for (Rows rows = db.Query(
           "SELECT trials.id, job_id, number, attempt FROM trials JOIN results ON trial_id = "
           "trials.id "
           "WHERE job_id <= ?1 AND (job_id < ?1 OR number > ?2) AND (?3 = 0 OR job_id = ?3) "
           "AND (?4 = '' OR kernel = ?4) AND (?5 = '' OR mask = ?5) AND (?6 = '' OR strategy = ?6) "
           "AND (?7 = 0 OR pass = ?7) AND (?8 = 0 OR outcome = ?8) AND (?9 = 0 OR ranks = ?9) "
           "AND (?10 = 0 OR seq_len = ?10) ORDER BY job_id DESC, number LIMIT ?11",
           {job, number, filter_job, filter.kernel(), filter.mask(), filter.strategy(),
            filter.pass(), filter.outcome(), filter.ranks(), filter.seq_len(), limit});
       rows.Next();) {
    found.push_back({rows.Int(0), rows.Int(1), rows.Int(2), static_cast<int>(rows.Int(3))});
  }
  return found;
}

}  // namespace lcab::coordinator
