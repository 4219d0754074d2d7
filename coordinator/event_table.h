// What watchers of a job are told, and what its runners sent in bulk: events, samples, logs. Errors
// stick to the connection (see connection.h).

#ifndef LCAB_COORDINATOR_EVENT_TABLE_H_
#define LCAB_COORDINATOR_EVENT_TABLE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "coordinator/trial_table.h"
#include "lcab/v1/jobs.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

// Appends an event with the job as it is now. `trial` may be nullptr.
void AppendEvent(Connection& db, int64_t job, const TrialRow* trial, std::string_view message,
                 absl::Time now);

// Events after `sequence`, oldest first, with specifications, and results of trials that have
// ended.
std::vector<v1::JobEvent> LoadEvents(Connection& db, int64_t job, int64_t sequence, int limit);

// Stores a piece of an attempt's samples; the same piece again changes nothing.
void StoreSamples(Connection& db, int64_t trial, int attempt, const v1::SampleChunk& chunk);
// Pieces that begin after iteration `after` (-1: all), in order.
std::vector<v1::SampleChunk> LoadSamples(Connection& db, int64_t trial, int attempt, int64_t after,
                                         int limit);
// Iterations that are stored.
int64_t CountSamples(Connection& db, int64_t trial, int attempt);

// Of each rank's output in one attempt, this much is kept: half from the beginning, and the end.
inline constexpr int64_t kMaxLogBytes = 4 << 20;

void AppendLog(Connection& db, int64_t trial, int attempt, int rank, std::string_view text);
// The kept output of a rank from byte `offset` on, at most one piece of some 100 KB; where bytes
// are missing, a line that says how many. `next` is where to go on.
struct LogPiece {
  std::string text;
  int64_t next = 0;
};
std::vector<int> LogRanks(Connection& db, int64_t trial, int attempt);
LogPiece LoadLog(Connection& db, int64_t trial, int attempt, int rank, int64_t offset);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_EVENT_TABLE_H_
