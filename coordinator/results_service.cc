#include "coordinator/results_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/event_table.h"
#include "coordinator/resource_names.h"
#include "coordinator/submission.h"
#include "coordinator/trial_table.h"
#include "service/grpc_options.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

using service::ToGrpc;

constexpr int kUsualPage = 50;
constexpr int kMostTrials = 200;
// Chunks of samples of one read: at most a MiB each.
constexpr int kChunksOfARead = 2;

}  // namespace

absl::Status QueryResults(const ReadFunction& read, const v1::QueryResultsRequest& request,
                          v1::QueryResultsResponse& response) {
  const auto size = PageSize(request.page_size(), kUsualPage, kMostTrials);
  if (!size.ok()) return size.status();
  int64_t job = 0;
  if (!request.filter().job().empty()) {
    const auto parsed = ParseJobName(request.filter().job());
    if (!parsed.ok()) return parsed.status();
    job = *parsed;
  }
  const std::string list = "results" + request.filter().SerializeAsString();
  PageStart start{0, -1};
  if (!request.page_token().empty()) {
    const auto parsed = ParsePageToken(list, request.page_token());
    if (!parsed.ok()) return parsed.status();
    start = *parsed;
  }
  return read([&](Connection& db) {
    if (job != 0 && db.QueryInt("SELECT COUNT(*) FROM jobs WHERE id = ?", {job}) == 0) {
      return JobNotFound(job);
    }
    size_t bytes = 0;
    std::optional<ResultRow> last;
    for (const ResultRow& row :
         FindResults(db, request.filter(), job, start.first, start.second, *size + 1)) {
      v1::Trial trial = LoadTrial(db, row.trial);
      bytes += trial.ByteSizeLong();
      const bool full = response.trials_size() == *size || bytes > service::kMaxSentBytes;
      if (full && last.has_value()) {
        response.set_next_page_token(MakePageToken(list, last->job, last->number));
        break;
      }
      *response.add_trials() = std::move(trial);
      last = row;
    }
    return absl::OkStatus();
  });
}

grpc::Status ResultsService::QueryResults(grpc::ServerContext* /*context*/,
                                          const v1::QueryResultsRequest* request,
                                          v1::QueryResultsResponse* response) {
  return ToGrpc(coordinator::QueryResults([this](const auto& read) { return core_.Read(read); },
                                          *request, *response));
}

// Page by page: while the reader takes its time, nothing of the store is held.
absl::Status ResultsService::Export(const v1::ExportResultsRequest& request,
                                    grpc::ServerWriter<v1::ExportedResult>& writer) {
  v1::QueryResultsRequest page;
  *page.mutable_filter() = request.filter();
  while (true) {
    v1::QueryResultsResponse results;
    absl::Status status = coordinator::QueryResults(
        [this](const auto& read) { return core_.Read(read); }, page, results);
    if (!status.ok()) return status;
    for (const v1::Trial& trial : results.trials()) {
      v1::ExportedResult exported;
      *exported.mutable_trial() = trial;
      if (!writer.Write(exported)) return absl::CancelledError("the reader is gone");
      if (!request.samples()) continue;
      status = ExportSamples(trial, writer);
      if (!status.ok()) return status;
    }
    if (results.next_page_token().empty()) return absl::OkStatus();
    page.set_page_token(results.next_page_token());
  }
}

absl::Status ResultsService::ExportSamples(const v1::Trial& trial,
                                           grpc::ServerWriter<v1::ExportedResult>& writer) {
  const auto id = ParseTrialName(trial.name());
  if (!id.ok()) return id.status();
  for (int64_t after = -1;;) {
    std::vector<v1::SampleChunk> chunks;
    absl::Status status = core_.Read([&](Connection& db) {
      const auto row = FindTrialNumber(db, id->job, id->number);
      if (!row.has_value()) return absl::OkStatus();
      const int64_t attempt =
          db.QueryInt("SELECT attempt FROM results WHERE trial_id = ?", {row->id});
      chunks = LoadSamples(db, row->id, static_cast<int>(attempt), after, kChunksOfARead);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    if (chunks.empty()) return absl::OkStatus();
    for (v1::SampleChunk& chunk : chunks) {
      after = chunk.first();
      v1::ExportedResult exported;
      *exported.mutable_samples() = std::move(chunk);
      if (!writer.Write(exported)) return absl::CancelledError("the reader is gone");
    }
  }
}

grpc::Status ResultsService::ExportResults(grpc::ServerContext* /*context*/,
                                           const v1::ExportResultsRequest* request,
                                           grpc::ServerWriter<v1::ExportedResult>* writer) {
  return ToGrpc(Export(*request, *writer));
}

}  // namespace lcab::coordinator
