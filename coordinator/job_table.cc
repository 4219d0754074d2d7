#include "coordinator/job_table.h"

#include <string>

#include "coordinator/resource_names.h"
#include "fmt/format.h"
#include "proto/proto_time.h"

namespace lcab::coordinator {
namespace {

constexpr std::string_view kColumns =
    "id, suite_name, file_name, submitter, state, created, started, ended, total, pending, "
    "running, "
    "ok, wrong_result, unsupported, out_of_memory, timed_out, crashed, cancelled, lost";

v1::Job ReadJob(const Rows& rows) {
  v1::Job job;
  job.set_name(JobName(rows.Int(0)));
  job.set_suite_name(rows.Text(1));
  job.set_file_name(rows.Text(2));
  job.set_submitter(rows.Text(3));
  job.set_state(ForApi(static_cast<JobState>(rows.Int(4))));
  *job.mutable_create_time() = ToProto(rows.Time(5));
  if (!rows.IsNull(6)) *job.mutable_start_time() = ToProto(rows.Time(6));
  if (!rows.IsNull(7)) *job.mutable_end_time() = ToProto(rows.Time(7));
  v1::TrialCounts& counts = *job.mutable_counts();
  counts.set_total(rows.Int(8));
  counts.set_pending(rows.Int(9));
  counts.set_running(rows.Int(10));
  counts.set_ok(rows.Int(11));
  counts.set_wrong_result(rows.Int(12));
  counts.set_unsupported(rows.Int(13));
  counts.set_out_of_memory(rows.Int(14));
  counts.set_timed_out(rows.Int(15));
  counts.set_crashed(rows.Int(16));
  counts.set_cancelled(rows.Int(17));
  counts.set_lost(rows.Int(18));
  return job;
}

}  // namespace

int64_t InsertJob(Connection& db, const v1::SubmitJobRequest& request, std::string_view suite_name,
                  int64_t trials, absl::Time now) {
  SqlValue request_id = nullptr;
  if (!request.request_id().empty()) request_id = std::string_view(request.request_id());
  db.Execute(
      "INSERT INTO jobs (request_id, suite_name, suite_text, file_name, submitter, state, created, "
      "total, pending) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {request_id, suite_name, request.suite_text(), request.file_name(), request.submitter(),
       static_cast<int64_t>(JobState::kQueued), ToSql(now), trials, trials});
  return db.last_insert_id();
}

std::optional<int64_t> FindJobOfRequest(Connection& db, std::string_view request_id) {
  if (request_id.empty()) return std::nullopt;
  Rows rows = db.Query("SELECT id FROM jobs WHERE request_id = ?", {request_id});
  if (!rows.Next()) return std::nullopt;
  return rows.Int(0);
}

std::optional<JobState> GetJobState(Connection& db, int64_t job) {
  Rows rows = db.Query("SELECT state FROM jobs WHERE id = ?", {job});
  if (!rows.Next()) return std::nullopt;
  return static_cast<JobState>(rows.Int(0));
}

void MoveJob(Connection& db, int64_t job, JobState from, JobState to, absl::Time now) {
  const SqlValue ended = HasEnded(to) ? SqlValue(ToSql(now)) : SqlValue(nullptr);
  const SqlValue started = to == JobState::kRunning ? SqlValue(ToSql(now)) : SqlValue(nullptr);
  if (!IsLegal(from, to) ||
      db.Execute("UPDATE jobs SET state = ?, ended = ?, started = COALESCE(started, ?) "
                 "WHERE id = ? AND state = ?",
                 {static_cast<int64_t>(to), ended, started, job, static_cast<int64_t>(from)}) !=
          1) {
    db.Fail(absl::InternalError(
        fmt::format("{} cannot go from {} to {}", JobName(job), Name(from), Name(to))));
  }
}

std::optional<v1::Job> LoadJob(Connection& db, int64_t job, bool with_suite_text) {
  static const std::string kSql =
      fmt::format("SELECT {}, suite_text FROM jobs WHERE id = ?", kColumns);
  Rows rows = db.Query(kSql, {job});
  if (!rows.Next()) return std::nullopt;
  v1::Job result = ReadJob(rows);
  if (with_suite_text) result.set_suite_text(rows.Text(19));
  return result;
}

std::vector<v1::Job> LoadJobs(Connection& db, int64_t before, int limit) {
  static const std::string kSql = fmt::format(
      "SELECT {} FROM jobs WHERE ?1 = 0 OR id < ?1 ORDER BY id DESC LIMIT ?2", kColumns);
  std::vector<v1::Job> jobs;
  for (Rows rows = db.Query(kSql, {before, limit}); rows.Next();) jobs.push_back(ReadJob(rows));
  return jobs;
}

}  // namespace lcab::coordinator
