#include "coordinator/event_table.h"

#include <algorithm>
#include <optional>
#include <string>

#include "coordinator/job_table.h"
#include "coordinator/resource_names.h"
#include "fmt/format.h"
#include "proto/proto_time.h"

namespace lcab::coordinator {
namespace {

// Pieces of logs are stored so that one answer of LoadLog is one of them.
constexpr int64_t kLogPieceBytes = 64 << 10;
constexpr int64_t kLogHeadBytes = kMaxLogBytes / 2;

void StoreLogPiece(Connection& db, int64_t trial, int attempt, int rank, int64_t offset,
                   std::string_view text) {
  db.Execute("INSERT INTO logs (trial_id, attempt, rank, offset, text) VALUES (?, ?, ?, ?, ?)",
             {trial, attempt, rank, offset, Blob{text}});
}

}  // namespace

void AppendEvent(Connection& db, int64_t job, const TrialRow* trial, std::string_view message,
                 absl::Time now) {
  db.Execute("UPDATE jobs SET events = events + 1 WHERE id = ?", {job});
  v1::JobEvent event;
  event.set_sequence(db.QueryInt("SELECT events FROM jobs WHERE id = ?", {job}));
  *event.mutable_time() = ToProto(now);
  if (auto loaded = LoadJob(db, job, /*with_suite_text=*/false); loaded.has_value()) {
    *event.mutable_job() = *std::move(loaded);
  }
  SqlValue trial_id = nullptr;
  if (trial != nullptr) {
    trial_id = trial->id;
    event.set_trial(TrialName(trial->job, trial->number));
    event.set_trial_state(ForApi(trial->state));
    if (event.trial_state() == v1::TRIAL_STATE_DONE) {
      event.mutable_result()->set_outcome(trial->outcome);
    }
  }
  event.set_message(std::string(message));
  const std::string bytes = event.SerializeAsString();
  db.Execute("INSERT INTO events (job_id, sequence, trial_id, event) VALUES (?, ?, ?, ?)",
             {job, event.sequence(), trial_id, Blob{bytes}});
}

std::vector<v1::JobEvent> LoadEvents(Connection& db, int64_t job, int64_t sequence, int limit) {
  std::vector<v1::JobEvent> events;
  for (Rows rows = db.Query("SELECT event, trial_id FROM events WHERE job_id = ? AND sequence > ? "
                            "ORDER BY sequence LIMIT ?",
                            {job, sequence, limit});
       rows.Next();) {
    v1::JobEvent& event = events.emplace_back();
    rows.Parse(0, event);
    if (rows.IsNull(1)) continue;
    *event.mutable_spec() = LoadSpec(db, rows.Int(1));
    if (event.trial_state() != v1::TRIAL_STATE_DONE) continue;
    const v1::Outcome outcome = event.result().outcome();
    event.clear_result();
    // The result that there is now may be that of a later end, with another outcome.
    if (auto result = LoadResult(db, rows.Int(1));
        result.has_value() && result->outcome() == outcome) {
      *event.mutable_result() = *std::move(result);
    }
  }
  return events;
}

void StoreSamples(Connection& db, int64_t trial, int attempt, const v1::SampleChunk& chunk) {
  const std::string bytes = chunk.SerializeAsString();
  db.Execute(
      "INSERT OR IGNORE INTO samples (trial_id, attempt, first, iterations, chunk) VALUES (?, ?, "
      "?, ?, "
      "?)",
      {trial, attempt, chunk.first(), chunk.marks_size(), Blob{bytes}});
}

std::vector<v1::SampleChunk> LoadSamples(Connection& db, int64_t trial, int attempt, int64_t after,
                                         int limit) {
  std::vector<v1::SampleChunk> chunks;
  for (Rows rows =
           db.Query("SELECT chunk FROM samples WHERE trial_id = ? AND attempt = ? AND first > "
                    "? ORDER BY first LIMIT ?",
                    {trial, attempt, after, limit});
       rows.Next();) {
    rows.Parse(0, chunks.emplace_back());
  }
  return chunks;
}

int64_t CountSamples(Connection& db, int64_t trial, int attempt) {
  return db.QueryInt("SELECT SUM(iterations) FROM samples WHERE trial_id = ? AND attempt = ?",
                     {trial, attempt});
}

// The beginning is kept as it comes. Behind it, whole pieces are dropped from the front so that the
// last half stays.
void AppendLog(Connection& db, int64_t trial, int attempt, int rank, std::string_view text) {
  if (text.empty()) return;
  int64_t bytes = 0;
  int64_t kept = 0;
  {
    Rows rows = db.Query(
        "SELECT bytes, kept FROM log_sizes WHERE trial_id = ? AND attempt = ? AND rank = ?",
        {trial, attempt, rank});
    if (rows.Next()) {
      bytes = rows.Int(0);
      kept = rows.Int(1);
    }
  }
  while (!text.empty()) {
    // No piece straddles the end of the head.
    int64_t size = std::min<int64_t>(kLogPieceBytes, static_cast<int64_t>(text.size()));
    if (bytes < kLogHeadBytes) size = std::min(size, kLogHeadBytes - bytes);
    StoreLogPiece(db, trial, attempt, rank, bytes, text.substr(0, size));
    text.remove_prefix(size);
    bytes += size;
    kept += size;
  }
  while (kept > kMaxLogBytes) {
    int64_t first = -1;
    int64_t size = 0;
    {
      Rows rows = db.Query(
          "SELECT offset, length(text) FROM logs WHERE trial_id = ? AND attempt = ? AND rank = ? "
          "AND "
          "offset >= ? ORDER BY offset LIMIT 1",
          {trial, attempt, rank, kLogHeadBytes});
      if (!rows.Next()) break;
      first = rows.Int(0);
      size = rows.Int(1);
    }
    db.Execute("DELETE FROM logs WHERE trial_id = ? AND attempt = ? AND rank = ? AND offset = ?",
               {trial, attempt, rank, first});
    kept -= size;
  }
  db.Execute(
      "INSERT OR REPLACE INTO log_sizes (trial_id, attempt, rank, bytes, kept) VALUES (?, ?, ?, ?, "
      "?)",
      {trial, attempt, rank, bytes, kept});
}

std::vector<int> LogRanks(Connection& db, int64_t trial, int attempt) {
  std::vector<int> ranks;
  for (Rows rows =
           db.Query("SELECT rank FROM log_sizes WHERE trial_id = ? AND attempt = ? ORDER BY "
                    "rank",
                    {trial, attempt});
       rows.Next();) {
    ranks.push_back(static_cast<int>(rows.Int(0)));
  }
  return ranks;
}

LogPiece LoadLog(Connection& db, int64_t trial, int attempt, int rank, int64_t offset) {
  LogPiece piece;
  Rows rows = db.Query(
      "SELECT offset, text FROM logs WHERE trial_id = ? AND attempt = ? AND rank = ? AND offset >= "
      "? "
      "ORDER BY offset LIMIT 1",
      {trial, attempt, rank, offset});
  if (!rows.Next()) {
    piece.next = offset;
    return piece;
  }
  const int64_t found = rows.Int(0);
  std::string text = rows.Text(1);
  piece.next = found + static_cast<int64_t>(text.size());
  piece.text =
      found > offset
          ? fmt::format("\n[{} bytes of this log were left out here]\n", found - offset) + text
          : std::move(text);
  return piece;
}

}  // namespace lcab::coordinator
