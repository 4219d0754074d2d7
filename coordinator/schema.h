// The tables of the store, and how a database of an earlier version becomes one of this version.

#ifndef LCAB_COORDINATOR_SCHEMA_H_
#define LCAB_COORDINATOR_SCHEMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/connection.h"

namespace lcab::coordinator {

// The version that this build reads and writes; `PRAGMA user_version` of the file.
int64_t SchemaVersion();

// FailedPrecondition for a file of a later version, and for a database of another program. Changes
// nothing.
absl::Status CheckMayMigrate(Connection& db);

// Brings the file up to SchemaVersion(), one transaction a step: a crash in between leaves a whole,
// older version. Statuses of CheckMayMigrate.
absl::Status Migrate(Connection& db);

// For readers: FailedPrecondition unless the file has exactly this version.
absl::Status CheckSchema(Connection& db);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_SCHEMA_H_
