#include "coordinator/submission.h"

#include <optional>

#include "coordinator/assignment_table.h"
#include "coordinator/endings.h"
#include "coordinator/event_table.h"
#include "coordinator/job_table.h"
#include "coordinator/resource_names.h"
#include "coordinator/trial_table.h"
#include "fmt/format.h"
#include "proto/proto_time.h"
#include "proto/visible_text.h"
#include "service/grpc_options.h"
#include "service/grpc_status.h"
#include "suites/enum_names.h"

namespace lcab::coordinator {
namespace {

absl::Status Check(const Expansion& expansion) {
  int trials = 0;
  for (const v1::CohortSpec& cohort : expansion.cohorts) {
    trials += cohort.trials_size();
    if (cohort.ranks() < 1 || cohort.ranks_per_device() < 1) {
      return absl::InternalError("the suite's expansion has a cohort without ranks");
    }
    if (cohort.ByteSizeLong() > static_cast<size_t>(service::kMaxSentBytes) / 2) {
      return absl::InvalidArgumentError(fmt::format(
          "{} trials share one problem and would be compared in one cohort, which is more than a "
          "worker can be sent: split the list of kernels, strategies or options over several "
          "suites",
          cohort.trials_size()));
    }
  }
  if (trials == 0) return absl::InvalidArgumentError("the suite has no trials: nothing to run");
  return absl::OkStatus();
}

bool MayRetry(const TrialRow& trial) {
  switch (trial.state) {
    case TrialState::kLost:
    case TrialState::kCancelled:
      return true;
    case TrialState::kCompleted:
      return trial.outcome == v1::OUTCOME_CRASHED || trial.outcome == v1::OUTCOME_TIMED_OUT ||
             trial.outcome == v1::OUTCOME_OUT_OF_MEMORY;
    default:
      return false;
  }
}

}  // namespace

absl::Status JobNotFound(int64_t job) {
  return service::ErrorWithInfo(
      absl::StatusCode::kNotFound,
      fmt::format("there is no {}; `lcab-client jobs` lists them", JobName(job)), "JOB_NOT_FOUND",
      {{"job", JobName(job)}});
}

absl::Status CheckSubmitter(std::string_view submitter) {
  if (submitter.size() <= kMostSubmitterBytes && VisibleText(submitter) == submitter) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "the submitter is '{}'{} ({} bytes); it must be at most {} bytes of text without "
      "control characters",
      VisibleText(submitter.substr(0, kMostSubmitterBytes)),
      submitter.size() > kMostSubmitterBytes ? "..." : "", submitter.size(), kMostSubmitterBytes));
}

absl::StatusOr<int64_t> SubmitJob(Step& step, const v1::SubmitJobRequest& request,
                                  const Expansion& expansion) {
  if (const auto before = FindJobOfRequest(step.db, request.request_id()); before.has_value()) {
    return *before;
  }
  if (absl::Status status = Check(expansion); !status.ok()) return status;
  int64_t trials = 0;
  for (const v1::CohortSpec& cohort : expansion.cohorts) trials += cohort.trials_size();
  const int64_t job = InsertJob(step.db, request, expansion.suite_name, trials, step.now);
  AppendEvent(step.db, job, nullptr,
              fmt::format("submitted: {} trial{} in {} cohort{}", trials, trials == 1 ? "" : "s",
                          expansion.cohorts.size(), expansion.cohorts.size() == 1 ? "" : "s"),
              step.now);
  int64_t number = 0;
  for (const v1::CohortSpec& cohort : expansion.cohorts) {
    const int64_t id = InsertCohort(step.db, job, cohort, number, step.now);
    number += cohort.trials_size();
    for (TrialRow& trial : TrialsOfCohort(step.db, id)) {
      const std::string& reason = cohort.trials(trial.position).unsupported_reason();
      if (reason.empty()) continue;
      v1::TrialResult result;
      result.set_outcome(v1::OUTCOME_UNSUPPORTED);
      result.set_reason(reason);
      result.set_rank(-1);
      *result.mutable_end_time() = ToProto(step.now);
      SettleTrial(step, trial, /*attempt=*/0, result, reason);
    }
  }
  step.effects.schedule = true;
  step.effects.jobs.insert(job);
  return job;
}

absl::Status CancelJob(Step& step, int64_t job) {
  const std::optional<JobState> state = GetJobState(step.db, job);
  if (!state.has_value()) return JobNotFound(job);
  if (HasEnded(*state)) {
    return service::ErrorWithInfo(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} has ended ({}) and cannot be cancelled", JobName(job), Name(*state)),
        "JOB_ENDED", {{"job", JobName(job)}, {"state", std::string(Name(*state))}});
  }
  if (*state == JobState::kCancelling) return absl::OkStatus();
  const std::vector<TrialRow> trials = TrialsOfJob(step.db, job);
  bool runs = false;
  for (const TrialRow& trial : trials) runs = runs || trial.state == TrialState::kRunning;
  if (runs) {
    MoveJob(step.db, job, *state, JobState::kCancelling, step.now);
    AppendEvent(step.db, job, nullptr, "cancel requested; its runners are being stopped", step.now);
    for (AssignmentRow& assignment : LiveAssignments(step.db, job)) {
      // It is `cancelled` only once its workers say so: they are waited for.
      SetStopBy(step.db, assignment, std::nullopt);
      StopAssignment(step, assignment, "its job was cancelled", v1::FAULT_UNSPECIFIED,
                     std::nullopt);
    }
  }
  for (TrialRow trial : trials) {
    if (trial.state != TrialState::kPending) continue;
    v1::TrialResult result;
    result.set_outcome(v1::OUTCOME_CANCELLED);
    result.set_reason("its job was cancelled before it ran");
    result.set_rank(-1);
    *result.mutable_end_time() = ToProto(step.now);
    SettleTrial(step, trial, /*attempt=*/0, result, result.reason());
  }
  step.effects.jobs.insert(job);
  return absl::OkStatus();
}

absl::Status RetryJob(Step& step, int64_t job) {
  const std::optional<JobState> state = GetJobState(step.db, job);
  if (!state.has_value()) return JobNotFound(job);
  if (!HasEnded(*state)) {
    return service::ErrorWithInfo(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} is {}: wait until it ends, or cancel it, then retry", JobName(job),
                    Name(*state)),
        "JOB_RUNNING", {{"job", JobName(job)}, {"state", std::string(Name(*state))}});
  }
  int64_t retried = 0;
  for (TrialRow trial : TrialsOfJob(step.db, job)) {
    if (!MayRetry(trial)) continue;
    MoveTrial(step.db, trial, TrialState::kPending);
    RemoveResult(step.db, trial);
    step.db.Execute("UPDATE trials SET counted = 0 WHERE id = ?", {trial.id});
    step.db.Execute("UPDATE cohorts SET waiting_since = ? WHERE id = ?",
                    {ToSql(step.now), trial.cohort});
    ++retried;
  }
  if (retried == 0) {
    return service::ErrorWithInfo(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} has no trial to retry: only those that crashed, timed out, ran out of "
                    "memory, were lost or cancelled are; the others are results",
                    JobName(job)),
        "NOTHING_TO_RETRY", {{"job", JobName(job)}});
  }
  MoveJob(step.db, job, *state, JobState::kQueued, step.now);
  AppendEvent(step.db, job, nullptr, fmt::format("retried: {} trials queued again", retried),
              step.now);
  step.effects.schedule = true;
  step.effects.jobs.insert(job);
  return absl::OkStatus();
}

}  // namespace lcab::coordinator
