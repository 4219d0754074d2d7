// Workers that the coordinator has met, and how far their events are stored. Errors stick to the
// connection (see connection.h).

#ifndef LCAB_COORDINATOR_WORKER_TABLE_H_
#define LCAB_COORDINATOR_WORKER_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "lcab/v1/fleet.pb.h"

namespace lcab::coordinator {

struct WorkerRow {
  std::string id;
  std::string incarnation;
  v1::Worker info;  // as it introduced itself; name, devices, kernels, environment, notes
  bool draining = false;
  absl::Time connected;
};

// Draining survives a new introduction.
void StoreWorker(Connection& db, const v1::Hello& hello, absl::Time now);
std::optional<WorkerRow> FindWorker(Connection& db, std::string_view id);
// After the worker `after` in order of id.
std::vector<WorkerRow> LoadWorkers(Connection& db, std::string_view after, int limit);
// False when there is no such worker.
bool SetDraining(Connection& db, std::string_view id, bool draining);

// True when the event is new; it is stored as seen then, and so is every one before it.
bool Acknowledge(Connection& db, std::string_view worker, std::string_view incarnation,
                 int64_t sequence);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_WORKER_TABLE_H_
