#include "coordinator/jobs_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/event_table.h"
#include "coordinator/job_table.h"
#include "coordinator/resource_names.h"
#include "coordinator/trial_table.h"
#include "coordinator/worker_table.h"
#include "fmt/format.h"
#include "service/grpc_options.h"
#include "service/grpc_status.h"
#include "spdlog/spdlog.h"

namespace lcab::coordinator {
namespace {

using service::ToGrpc;

constexpr size_t kMaxSuiteBytes = 1 << 20;
constexpr size_t kMaxFilesBytes = 16 << 20;
constexpr size_t kMaxNameBytes = 1000;
constexpr int kUsualPage = 50;
constexpr int kMostJobs = 1000;
constexpr int kMostTrials = 200;
// Events of one read; a watcher that is far behind gets them in several.
constexpr int kEventsOfARead = 100;
constexpr absl::Duration kWatchWait = absl::Seconds(1);

absl::Status CheckSubmission(const v1::SubmitJobRequest& request) {
  size_t files = 0;
  for (const auto& [name, content] : request.files()) files += name.size() + content.size();
  if (request.suite_text().size() > kMaxSuiteBytes || files > kMaxFilesBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a suite is at most {} bytes and its files {}; these are {} and {}",
                    kMaxSuiteBytes, kMaxFilesBytes, request.suite_text().size(), files));
  }
  for (const std::string* text : {&request.request_id(), &request.file_name()}) {
    if (text->size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(
          fmt::format("request_id and file_name are at most {} bytes each", kMaxNameBytes));
    }
  }
  return CheckSubmitter(request.submitter());
}

absl::Status TrialNotFound(const TrialId& id) {
  const std::string name = TrialName(id.job, id.number);
  return service::ErrorWithInfo(
      absl::StatusCode::kNotFound,
      fmt::format("there is no {}; `lcab-client job {}` lists the trials of "
                  "its job",
                  name, id.job),
      "TRIAL_NOT_FOUND", {{"trial", name}});
}

// Without files, results and texts that make it large.
std::vector<v1::KernelInfo> AnnouncedKernels(Connection& db) {
  std::vector<v1::KernelInfo> kernels;
  std::string after;
  while (true) {
    const std::vector<WorkerRow> workers = LoadWorkers(db, after, kMostJobs);
    if (workers.empty()) return kernels;
    for (const WorkerRow& worker : workers) {
      kernels.insert(kernels.end(), worker.info.kernels().begin(), worker.info.kernels().end());
    }
    after = workers.back().id;
  }
}

}  // namespace

absl::Status JobsService::Load(int64_t id, v1::Job* job) {
  return core_.Read([&](Connection& db) {
    auto loaded = LoadJob(db, id, /*with_suite_text=*/true);
    if (!loaded.has_value()) return JobNotFound(id);
    *job = *std::move(loaded);
    if (job->counts().pending() > 0) job->set_waiting_reason(core_.WaitingReason(id));
    return absl::OkStatus();
  });
}

absl::Status JobsService::Submit(const v1::SubmitJobRequest& request, v1::Job* job) {
  if (absl::Status status = CheckSubmission(request); !status.ok()) return status;
  std::optional<int64_t> before;
  std::vector<v1::KernelInfo> announced;
  absl::Status status = core_.Read([&](Connection& db) {
    before = FindJobOfRequest(db, request.request_id());
    if (!before.has_value()) announced = AnnouncedKernels(db);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (before.has_value()) return Load(*before, job);
  const auto expansion = core_.options().expand(request, announced);
  if (!expansion.ok()) return expansion.status();
  int64_t id = 0;
  status = core_.Change([&](Step& step) {
    auto submitted = coordinator::SubmitJob(step, request, *expansion);
    if (submitted.ok()) id = *submitted;
    return submitted.status();
  });
  if (!status.ok()) return status;
  status = Load(id, job);
  spdlog::info("job submitted job={} suite={} submitter={} trials={}", JobName(id),
               expansion->suite_name, request.submitter(), job->counts().total());
  return status;
}

grpc::Status JobsService::SubmitJob(grpc::ServerContext* /*context*/,
                                    const v1::SubmitJobRequest* request, v1::Job* job) {
  return ToGrpc(Submit(*request, job));
}

grpc::Status JobsService::GetJob(grpc::ServerContext* /*context*/, const v1::GetJobRequest* request,
                                 v1::Job* job) {
  const auto id = ParseJobName(request->name());
  return ToGrpc(id.ok() ? Load(*id, job) : id.status());
}

grpc::Status JobsService::ListJobs(grpc::ServerContext* /*context*/,
                                   const v1::ListJobsRequest* request,
                                   v1::ListJobsResponse* response) {
  const auto size = PageSize(request->page_size(), kUsualPage, kMostJobs);
  if (!size.ok()) return ToGrpc(size.status());
  PageStart start;
  if (!request->page_token().empty()) {
    const auto parsed = ParsePageToken("jobs", request->page_token());
    if (!parsed.ok()) return ToGrpc(parsed.status());
    start = *parsed;
  }
  return ToGrpc(core_.Read([&](Connection& db) {
    std::vector<v1::Job> jobs = LoadJobs(db, start.first, *size + 1);
    const bool more = static_cast<int>(jobs.size()) > *size;
    if (more) jobs.pop_back();
    for (v1::Job& job : jobs) {
      const auto id = ParseJobName(job.name());
      if (id.ok() && job.counts().pending() > 0) job.set_waiting_reason(core_.WaitingReason(*id));
      if (id.ok() && more) response->set_next_page_token(MakePageToken("jobs", *id, 0));
      *response->add_jobs() = std::move(job);
    }
    return absl::OkStatus();
  }));
}

absl::Status JobsService::Watch(grpc::ServerContext& context, const v1::WatchJobRequest& request,
                                grpc::ServerWriter<v1::JobEvent>& writer) {
  const auto id = ParseJobName(request.name());
  if (!id.ok()) return id.status();
  JobNews::Watch watch(core_.news(), *id);
  int64_t sequence = request.after_sequence();
  while (!context.IsCancelled() && !core_.stopping()) {
    const std::vector<TrialStage> stages = watch.Wait(kWatchWait);
    std::vector<v1::JobEvent> events;
    v1::Job job;
    do {
      absl::Status status = core_.Read([&](Connection& db) {
        // The job first: when it has ended, no event follows those that are read after.
        auto loaded = LoadJob(db, *id, /*with_suite_text=*/false);
        if (!loaded.has_value()) return JobNotFound(*id);
        job = *std::move(loaded);
        events = LoadEvents(db, *id, sequence, kEventsOfARead);
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      for (const v1::JobEvent& event : events) {
        if (!writer.Write(event)) return absl::CancelledError("the watcher is gone");
        sequence = event.sequence();
      }
    } while (!events.empty());
    if (job.has_end_time()) return absl::OkStatus();
    for (const TrialStage& stage : stages) {
      v1::JobEvent event;
      event.set_sequence(sequence);
      *event.mutable_job() = job;
      event.set_trial(TrialName(*id, stage.number));
      event.set_trial_state(v1::TRIAL_STATE_RUNNING);
      event.set_stage(stage.stage);
      event.set_samples(stage.samples);
      if (!writer.Write(event)) return absl::CancelledError("the watcher is gone");
    }
  }
  if (core_.stopping()) {
    return absl::UnavailableError(
        "the coordinator is shutting down; watch again from the last sequence number");
  }
  return absl::CancelledError("the watcher is gone");
}

grpc::Status JobsService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                                   grpc::ServerWriter<v1::JobEvent>* writer) {
  return ToGrpc(Watch(*context, *request, *writer));
}

grpc::Status JobsService::CancelJob(grpc::ServerContext* /*context*/,
                                    const v1::CancelJobRequest* request, v1::Job* job) {
  const auto id = ParseJobName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  const absl::Status status =
      core_.Change([&](Step& step) { return coordinator::CancelJob(step, *id); });
  return ToGrpc(status.ok() ? Load(*id, job) : status);
}

grpc::Status JobsService::RetryJob(grpc::ServerContext* /*context*/,
                                   const v1::RetryJobRequest* request, v1::Job* job) {
  const auto id = ParseJobName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  const absl::Status status =
      core_.Change([&](Step& step) { return coordinator::RetryJob(step, *id); });
  return ToGrpc(status.ok() ? Load(*id, job) : status);
}

grpc::Status JobsService::ListTrials(grpc::ServerContext* /*context*/,
                                     const v1::ListTrialsRequest* request,
                                     v1::ListTrialsResponse* response) {
  const auto job = ParseJobName(request->parent());
  if (!job.ok()) return ToGrpc(job.status());
  const auto size = PageSize(request->page_size(), kUsualPage, kMostTrials);
  if (!size.ok()) return ToGrpc(size.status());
  const std::string list = fmt::format("trials of {}", *job);
  int64_t after = -1;
  if (!request->page_token().empty()) {
    const auto parsed = ParsePageToken(list, request->page_token());
    if (!parsed.ok()) return ToGrpc(parsed.status());
    after = parsed->first;
  }
  return ToGrpc(core_.Read([&](Connection& db) {
    if (!GetJobState(db, *job).has_value()) return JobNotFound(*job);
    const std::vector<int64_t> ids = TrialIdsOfJob(db, *job, after, *size + 1);
    size_t bytes = 0;
    for (const int64_t id : ids) {
      v1::Trial trial = LoadTrial(db, id);
      bytes += trial.ByteSizeLong();
      const bool full = response->trials_size() == *size || bytes > service::kMaxSentBytes;
      if (full && response->trials_size() > 0) {
        const auto last = ParseTrialName(response->trials().rbegin()->name());
        if (last.ok()) response->set_next_page_token(MakePageToken(list, last->number, 0));
        break;
      }
      *response->add_trials() = std::move(trial);
    }
    return absl::OkStatus();
  }));
}

grpc::Status JobsService::GetTrial(grpc::ServerContext* /*context*/,
                                   const v1::GetTrialRequest* request, v1::Trial* trial) {
  const auto id = ParseTrialName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(core_.Read([&](Connection& db) {
    const auto row = FindTrialNumber(db, id->job, id->number);
    if (!row.has_value()) return TrialNotFound(*id);
    *trial = LoadTrial(db, row->id);
    return absl::OkStatus();
  }));
}

absl::Status JobsService::ReadLogs(const v1::GetTrialLogsRequest& request,
                                   grpc::ServerWriter<v1::LogChunk>& writer) {
  const auto id = ParseTrialName(request.name());
  if (!id.ok()) return id.status();
  std::optional<TrialRow> trial;
  std::vector<int> ranks;
  int attempt = request.attempt();
  absl::Status status = core_.Read([&](Connection& db) {
    trial = FindTrialNumber(db, id->job, id->number);
    if (!trial.has_value()) return TrialNotFound(*id);
    if (attempt == 0) attempt = trial->attempts;
    if (attempt < 0 || attempt > trial->attempts) {
      return absl::NotFoundError(fmt::format("{} has {} attempts, and none with the number {}",
                                             request.name(), trial->attempts, attempt));
    }
    ranks = LogRanks(db, trial->id, attempt);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  for (const int rank : ranks) {
    for (int64_t offset = 0;;) {
      LogPiece piece;
      status = core_.Read([&](Connection& db) {
        piece = LoadLog(db, trial->id, attempt, rank, offset);
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      if (piece.next == offset) break;
      offset = piece.next;
      v1::LogChunk chunk;
      chunk.set_attempt(attempt);
      chunk.set_rank(rank);
      chunk.set_text(std::move(piece.text));
      if (!writer.Write(chunk)) return absl::CancelledError("the reader is gone");
    }
  }
  return absl::OkStatus();
}

grpc::Status JobsService::GetTrialLogs(grpc::ServerContext* /*context*/,
                                       const v1::GetTrialLogsRequest* request,
                                       grpc::ServerWriter<v1::LogChunk>* writer) {
  return ToGrpc(ReadLogs(*request, *writer));
}

}  // namespace lcab::coordinator
