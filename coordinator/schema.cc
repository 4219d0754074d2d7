#include "coordinator/schema.h"

#include <iterator>
#include <string>

#include "fmt/format.h"

namespace lcab::coordinator {
namespace {

// Step i leads from version i to i + 1. A step that has been released never changes.
//
// The numbers in `state` columns are the enums of states.h, those of `outcome` and `fault` of
// lcab.v1; messages are lcab.v1 in binary form; times are microseconds since 1970.
constexpr const char* kSteps[] = {
    R"sql(
-- Facts of the file itself: database_id tells its assignments from those of another file.
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO facts VALUES ('database_id', lower(hex(randomblob(4))));

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  request_id TEXT UNIQUE,
  suite_name TEXT NOT NULL,
  suite_text TEXT NOT NULL,
  file_name TEXT NOT NULL,
  submitter TEXT NOT NULL,
  state INTEGER NOT NULL,
  created INTEGER NOT NULL,
  started INTEGER,
  ended INTEGER,
  events INTEGER NOT NULL DEFAULT 0,        -- sequence number of the last event
  -- How many trials are where; MoveTrial keeps them.
  total INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  running INTEGER NOT NULL DEFAULT 0,
  ok INTEGER NOT NULL DEFAULT 0,
  wrong_result INTEGER NOT NULL DEFAULT 0,
  unsupported INTEGER NOT NULL DEFAULT 0,
  out_of_memory INTEGER NOT NULL DEFAULT 0,
  timed_out INTEGER NOT NULL DEFAULT 0,
  crashed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  lost INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX live_jobs ON jobs(state, pending, running) WHERE state IN (1, 2, 6);

CREATE TABLE cohorts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES jobs(id),
  ranks INTEGER NOT NULL,
  ranks_per_device INTEGER NOT NULL,
  waiting_since INTEGER NOT NULL
) STRICT;
CREATE INDEX cohorts_of_job ON cohorts(job_id);

CREATE TABLE trials (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES jobs(id),
  number INTEGER NOT NULL,                  -- in the job, in order of the suite
  cohort_id INTEGER NOT NULL REFERENCES cohorts(id),
  position INTEGER NOT NULL,                -- in the cohort
  state INTEGER NOT NULL,
  outcome INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,      -- number of the last one
  counted INTEGER NOT NULL DEFAULT 0,       -- against the limit
  spec BLOB NOT NULL,
  -- What results are filtered by, out of the spec.
  kernel TEXT NOT NULL,
  mask TEXT NOT NULL,
  strategy TEXT NOT NULL,
  pass INTEGER NOT NULL,
  ranks INTEGER NOT NULL,
  seq_len INTEGER NOT NULL,
  timeout INTEGER NOT NULL,
  UNIQUE (job_id, number),
  UNIQUE (cohort_id, position)
) STRICT;
CREATE INDEX pending_trials ON trials(job_id, cohort_id) WHERE state = 1;

-- The result that settled a trial.
CREATE TABLE results (
  trial_id INTEGER PRIMARY KEY REFERENCES trials(id),
  attempt INTEGER NOT NULL,                 -- 0: settled without one
  result BLOB NOT NULL
) STRICT;

CREATE TABLE assignments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  job_id INTEGER NOT NULL REFERENCES jobs(id),
  cohort_id INTEGER NOT NULL REFERENCES cohorts(id),
  state INTEGER NOT NULL,
  devices INTEGER NOT NULL,
  created INTEGER NOT NULL,
  overdue INTEGER NOT NULL,                 -- the workers' own limits have failed by then
  stop_by INTEGER,                          -- of one that is being stopped
  ended INTEGER,
  reason TEXT NOT NULL DEFAULT '',
  fault INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX live_assignments ON assignments(job_id) WHERE state IN (1, 2);

-- What one worker holds of an assignment. Its devices are in use while the share is running.
CREATE TABLE shares (
  assignment_id INTEGER NOT NULL REFERENCES assignments(id),
  worker TEXT NOT NULL,
  state INTEGER NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  fault INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (assignment_id, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX running_shares ON shares(worker) WHERE state = 1;

CREATE TABLE ranks (
  assignment_id INTEGER NOT NULL REFERENCES assignments(id),
  rank INTEGER NOT NULL,
  worker TEXT NOT NULL,
  device TEXT NOT NULL,
  PRIMARY KEY (assignment_id, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  trial_id INTEGER NOT NULL REFERENCES trials(id),
  number INTEGER NOT NULL,
  assignment_id INTEGER NOT NULL REFERENCES assignments(id),
  state INTEGER NOT NULL,
  counted INTEGER NOT NULL DEFAULT 1,
  outcome INTEGER NOT NULL DEFAULT 0,
  fault INTEGER NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '',
  claimed INTEGER NOT NULL,
  ended INTEGER,
  -- A failure that was reported before the gang's other workers had their say.
  suspected BLOB,
  PRIMARY KEY (trial_id, number)
) STRICT;
CREATE INDEX attempts_of_assignment ON attempts(assignment_id);

CREATE TABLE samples (
  trial_id INTEGER NOT NULL REFERENCES trials(id),
  attempt INTEGER NOT NULL,
  first INTEGER NOT NULL,
  iterations INTEGER NOT NULL,
  chunk BLOB NOT NULL,
  PRIMARY KEY (trial_id, attempt, first)
) STRICT;

CREATE TABLE logs (
  trial_id INTEGER NOT NULL REFERENCES trials(id),
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  offset INTEGER NOT NULL,                  -- of the piece in what was printed
  text BLOB NOT NULL,
  PRIMARY KEY (trial_id, attempt, rank, offset)
) STRICT;
CREATE TABLE log_sizes (
  trial_id INTEGER NOT NULL REFERENCES trials(id),
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  bytes INTEGER NOT NULL,                   -- printed
  kept INTEGER NOT NULL,
  PRIMARY KEY (trial_id, attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  job_id INTEGER NOT NULL REFERENCES jobs(id),
  sequence INTEGER NOT NULL,
  trial_id INTEGER,
  event BLOB NOT NULL,                      -- JobEvent without spec; of the result, the outcome
  PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  id TEXT PRIMARY KEY,
  incarnation TEXT NOT NULL,
  info BLOB NOT NULL,                       -- Worker, as it introduced itself
  draining INTEGER NOT NULL DEFAULT 0,
  connected INTEGER NOT NULL
) STRICT;

CREATE TABLE acknowledged (
  worker TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  PRIMARY KEY (worker, incarnation)
) STRICT, WITHOUT ROWID;
)sql",
};

// "LCAB" in the file's header: tells our databases from others.
constexpr int64_t kApplicationId = 0x4C434142;

absl::Status Newer(const Connection& db, int64_t version) {
  return DatabaseError(
      absl::StatusCode::kFailedPrecondition,
      fmt::format(
          "{} has version {} of the tables, this build knows {}: use a newer lcab, or another --db",
          db.path(), version, SchemaVersion()));
}

}  // namespace

int64_t SchemaVersion() { return std::ssize(kSteps); }

absl::Status CheckMayMigrate(Connection& db) {
  const int64_t version = db.QueryInt("PRAGMA user_version");
  const int64_t application = db.QueryInt("PRAGMA application_id");
  const int64_t tables = db.QueryInt("SELECT COUNT(*) FROM sqlite_schema");
  if (!db.status().ok()) return db.TakeStatus();
  if (application != kApplicationId && (tables > 0 || version != 0)) {
    return DatabaseError(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} is a database of another program: choose another file with --db",
                    db.path()));
  }
  return version > SchemaVersion() ? Newer(db, version) : absl::OkStatus();
}

absl::Status Migrate(Connection& db) {
  if (absl::Status status = CheckMayMigrate(db); !status.ok()) return status;
  int64_t version = db.QueryInt("PRAGMA user_version");
  for (; version < SchemaVersion(); ++version) {
    db.ExecuteScript(
        fmt::format("BEGIN IMMEDIATE;{} PRAGMA application_id={}; PRAGMA user_version={}; COMMIT",
                    kSteps[version], kApplicationId, version + 1));
    if (!db.status().ok()) {
      absl::Status failed = db.TakeStatus();
      if (db.in_transaction()) db.ExecuteScript("ROLLBACK");
      (void)db.TakeStatus();
      return failed;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSchema(Connection& db) {
  const int64_t version = db.QueryInt("PRAGMA user_version");
  const int64_t application = db.QueryInt("PRAGMA application_id");
  if (!db.status().ok()) return db.TakeStatus();
  if (application != kApplicationId) {
    return DatabaseError(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} holds no results of lcab: give the file that `lcab-client run` or "
                    "lcab-coordinator wrote",
                    db.path()));
  }
  if (version > SchemaVersion()) return Newer(db, version);
  if (version < SchemaVersion()) {
    return DatabaseError(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} has version {} of the tables, older than this build's {}: start "
                    "lcab-coordinator with it once, which brings it up to date",
                    db.path(), version, SchemaVersion()));
  }
  return absl::OkStatus();
}

}  // namespace lcab::coordinator
