// Trials, their attempts as the API shows them, and their results in the store. Errors stick to the
// connection (see connection.h).

#ifndef LCAB_COORDINATOR_TRIAL_TABLE_H_
#define LCAB_COORDINATOR_TRIAL_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "coordinator/states.h"
#include "lcab/v1/jobs.pb.h"
#include "lcab/v1/results.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

// What decisions about a trial need, without its specification.
struct TrialRow {
  int64_t id = 0;
  int64_t job = 0;
  int64_t number = 0;  // in the job
  int64_t cohort = 0;
  int position = 0;  // in the cohort
  TrialState state = TrialState::kPending;
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;  // of one that has ended
  int attempts = 0;                               // number of the last one
  int counted = 0;                                // against the limit
  std::string kernel;
  std::string mask;
  std::string strategy;
  v1::Pass pass = v1::PASS_UNSPECIFIED;
};

// Pending trials of a new cohort; the first one's number in the job is `number`.
int64_t InsertCohort(Connection& db, int64_t job, const v1::CohortSpec& spec, int64_t number,
                     absl::Time now);

std::optional<TrialRow> FindTrial(Connection& db, int64_t id);
std::optional<TrialRow> FindTrialAt(Connection& db, int64_t cohort, int position);
std::optional<TrialRow> FindTrialNumber(Connection& db, int64_t job, int64_t number);
std::vector<TrialRow> TrialsOfCohort(Connection& db, int64_t cohort);
std::vector<TrialRow> TrialsOfJob(Connection& db, int64_t job);

// Moves the trial, in the store and in `trial`, and keeps the counts of its job. `outcome` is what
// a completed trial came to; the other states say it themselves. Fails the transaction (Internal)
// when the trial is not where `trial` says or the move is not in the table.
void MoveTrial(Connection& db, TrialRow& trial, TrialState to,
               v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED);

// The result that settles a trial; it replaces one of an attempt that was lost.
void StoreResult(Connection& db, const TrialRow& trial, int attempt, const v1::TrialResult& result);
void RemoveResult(Connection& db, const TrialRow& trial);

v1::TrialSpec LoadSpec(Connection& db, int64_t trial);
v1::CohortSpec LoadCohort(Connection& db, int64_t cohort);
std::optional<v1::TrialResult> LoadResult(Connection& db, int64_t trial);

// As the API shows it: spec, result, attempts.
v1::Trial LoadTrial(Connection& db, int64_t trial);

// In the order of the suite, those after `after` (-1: all).
std::vector<int64_t> TrialIdsOfJob(Connection& db, int64_t job, int64_t after, int limit);

// Settled trials that match, newest job first, in the order of the suite within a job, after the
// trial `job`/`number` (0/-1: from the beginning).
struct ResultRow {
  int64_t trial = 0;
  int64_t job = 0;
  int64_t number = 0;
  int attempt = 0;
};
std::vector<ResultRow> FindResults(Connection& db, const v1::ResultFilter& filter,
                                   int64_t filter_job, int64_t job, int64_t number, int limit);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_TRIAL_TABLE_H_
