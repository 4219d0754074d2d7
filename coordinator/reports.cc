#include "coordinator/reports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "coordinator/assignment_table.h"
#include "coordinator/endings.h"
#include "coordinator/event_table.h"
#include "coordinator/job_table.h"
#include "coordinator/resource_names.h"
#include "coordinator/trial_table.h"
#include "coordinator/worker_table.h"
#include "fmt/format.h"

namespace lcab::coordinator {
namespace {

// What an event is about, found in the store.
struct Subject {
  AssignmentRow assignment;
  std::vector<ShareRow> shares;
  ShareRow share;  // of the worker that tells
};

std::optional<ShareRow> FindShare(const std::vector<ShareRow>& shares, std::string_view worker) {
  for (const ShareRow& share : shares) {
    if (share.worker == worker) return share;
  }
  return std::nullopt;
}

// The attempt of the assignment at the trial in position `position` of its cohort.
std::optional<std::pair<TrialRow, AttemptRow>> FindAttempt(Step& step,
                                                           const AssignmentRow& assignment,
                                                           int position) {
  const auto trial = FindTrialAt(step.db, assignment.cohort, position);
  if (!trial.has_value()) return std::nullopt;
  const auto attempt = FindAttemptAt(step.db, assignment.id, trial->id);
  if (!attempt.has_value()) return std::nullopt;
  return std::pair(*trial, *attempt);
}

// A later report replaces an earlier suspicion when it is nearer to the cause.
int Weight(v1::Fault fault) {
  return fault == v1::FAULT_KERNEL ? 3 : fault == v1::FAULT_LIMIT ? 2 : 1;
}

// Whose ranks failed, for choosing another worker next time.
void BlameWorker(Step& step, const Subject& subject, const v1::TrialResult& result) {
  std::string blamed = subject.share.worker;
  for (const RankRow& rank : RanksOf(step.db, subject.assignment.id)) {
    if (rank.rank == result.rank()) blamed = rank.worker;
  }
  step.db.Execute("UPDATE shares SET fault = ? WHERE assignment_id = ? AND worker = ?",
                  {v1::FAULT_INFRASTRUCTURE, subject.assignment.id, blamed});
}

void SettleBy(Step& step, TrialRow& trial, AttemptRow& attempt, const v1::TrialResult& result) {
  // An attempt that the store has as ended keeps its row; what it came to is replaced.
  EndAttempt(step, trial, attempt, AttemptState::kEnded, result.outcome(), result.fault(),
             result.reason(), attempt.counted);
  SettleTrial(step, trial, attempt.number, result, result.reason());
}

// A result of an earlier attempt came while a later one runs: that one has nothing left to show.
void DiscardRunning(Step& step, const TrialRow& trial) {
  for (AssignmentRow& assignment : LiveAssignments(step.db, trial.job)) {
    bool others = false;
    bool here = false;
    for (AttemptRow& attempt : AttemptsOf(step.db, assignment.id)) {
      const bool open =
          attempt.state == AttemptState::kClaimed || attempt.state == AttemptState::kStarted;
      if (attempt.trial != trial.id) {
        others = others || open;
      } else if (open) {
        here = true;
        EndAttempt(step, trial, attempt, AttemptState::kEnded, v1::OUTCOME_CANCELLED,
                   v1::FAULT_UNSPECIFIED,
                   "an earlier attempt's result came late and settled the trial",
                   /*counted=*/false);
      }
    }
    if (here && !others) {
      StopAssignment(step, assignment, "its trials were settled by earlier attempts",
                     v1::FAULT_UNSPECIFIED, StopDeadline(step));
    }
  }
}

// The attempt that the trial is waiting for failed or completed.
void ReportCurrent(Step& step, Subject& subject, TrialRow& trial, AttemptRow& attempt,
                   const v1::TrialResult& result) {
  const bool gang = subject.shares.size() > 1;
  const std::vector<RankRow> ranks = RanksOf(step.db, subject.assignment.id);
  const bool leads = !ranks.empty() && ranks.front().worker == subject.share.worker;
  const bool died =
      result.outcome() == v1::OUTCOME_CRASHED || result.outcome() == v1::OUTCOME_TIMED_OUT;
  // In a gang, a death is reported by those who died and those who noticed. Rank 0 speaks for all
  // otherwise.
  if (IsConclusive(result) && (!gang || (leads && !died))) {
    SettleBy(step, trial, attempt, result);
    return;
  }
  if (result.fault() == v1::FAULT_INFRASTRUCTURE) BlameWorker(step, subject, result);
  if (!attempt.suspected.has_value() ||
      Weight(result.fault()) > Weight(attempt.suspected->fault())) {
    attempt.suspected = result;
    UpdateAttempt(step.db, attempt, attempt.state, step.now);
  }
  if (gang && died) {
    StopAssignment(step, subject.assignment, result.reason(), result.fault(), StopDeadline(step));
  }
}

void ReportTrial(Step& step, Subject& subject, const v1::AssignmentEvent::TrialEnded& report,
                 std::string& remark) {
  auto found = FindAttempt(step, subject.assignment, report.trial());
  if (!found.has_value() || found->second.number != report.attempt()) {
    remark = fmt::format("{} has no attempt {} of trial {}", subject.assignment.name,
                         report.attempt(), report.trial());
    return;
  }
  auto& [trial, attempt] = *found;
  v1::TrialResult result = report.result();
  if (result.outcome() == v1::OUTCOME_UNSPECIFIED || result.outcome() == v1::OUTCOME_LOST) {
    result.set_outcome(v1::OUTCOME_CRASHED);
    result.set_fault(v1::FAULT_INFRASTRUCTURE);
    if (result.reason().empty()) result.set_reason("the worker reported an end without an outcome");
  }
  // What a cancelled or stopped trial comes to is decided when its assignment closes.
  if (result.outcome() == v1::OUTCOME_CANCELLED) return;
  if (trial.state == TrialState::kCompleted || trial.state == TrialState::kCancelled) {
    remark = fmt::format("{} has been settled: a second result is not kept",
                         TrialName(trial.job, trial.number));
    return;
  }
  if (const int64_t stored = CountSamples(step.db, trial.id, attempt.number);
      stored < report.iterations()) {
    remark = fmt::format("{} of {} samples of {} arrived", stored, report.iterations(),
                         TrialName(trial.job, trial.number));
  }
  if (trial.state == TrialState::kRunning && trial.attempts == attempt.number) {
    ReportCurrent(step, subject, trial, attempt, result);
    return;
  }
  // Late: of an attempt that had been given up. Only a result is of use.
  if (!IsConclusive(result)) return;
  const bool replaced = trial.state == TrialState::kRunning;
  if (replaced) DiscardRunning(step, trial);
  SettleBy(step, trial, attempt, result);
}

void ReportEnded(Step& step, Subject& subject, const v1::AssignmentEvent::Ended& ended) {
  if (subject.share.state == ShareState::kEnded) return;
  const v1::Fault fault =
      ended.fault() == v1::FAULT_UNSPECIFIED ? subject.share.fault : ended.fault();
  MoveShare(step.db, subject.assignment.id, subject.share, ShareState::kEnded, ended.reason(),
            fault);
  step.effects.schedule = true;
  bool open = false;
  for (const AttemptRow& attempt : AttemptsOf(step.db, subject.assignment.id)) {
    open =
        open || attempt.state == AttemptState::kClaimed || attempt.state == AttemptState::kStarted;
  }
  if (open && subject.shares.size() > 1) {
    StopAssignment(
        step, subject.assignment,
        ended.reason().empty()
            ? fmt::format("worker {} ended its share before the others", subject.share.worker)
            : fmt::format("worker {}: {}", subject.share.worker, ended.reason()),
        ended.fault(), StopDeadline(step));
  }
  CloseIfDone(step, subject.assignment);
}

// Takes an assignment back that was given up as lost, if nothing took its place.
bool TakeBack(Step& step, AssignmentRow& assignment, const ShareRow& share, size_t shares) {
  if (shares != 1 || assignment.state != AssignmentState::kLost) return false;
  std::vector<AttemptRow> attempts = AttemptsOf(step.db, assignment.id);
  std::vector<std::pair<TrialRow, AttemptRow*>> again;
  for (AttemptRow& attempt : attempts) {
    if (attempt.state != AttemptState::kLost) continue;
    const auto trial = FindTrial(step.db, attempt.trial);
    if (!trial.has_value() || trial->attempts != attempt.number ||
        (trial->state != TrialState::kPending && trial->state != TrialState::kLost)) {
      return false;
    }
    again.emplace_back(*trial, &attempt);
  }
  if (again.empty()) return false;
  for (auto& [trial, attempt] : again) {
    // One that has ended as lost stays so until its result comes.
    if (trial.state == TrialState::kLost) continue;
    attempt->outcome = v1::OUTCOME_UNSPECIFIED;
    attempt->fault = v1::FAULT_UNSPECIFIED;
    attempt->reason.clear();
    attempt->counted = true;
    UpdateAttempt(step.db, *attempt, AttemptState::kStarted, step.now);
    MoveTrial(step.db, trial, TrialState::kRunning);
    AppendEvent(step.db, trial.job, &trial,
                fmt::format("worker {} came back with attempt {} still running", share.worker,
                            attempt->number),
                step.now);
    if (GetJobState(step.db, trial.job) == JobState::kQueued) {
      MoveJob(step.db, trial.job, JobState::kQueued, JobState::kRunning, step.now);
    }
    step.effects.jobs.insert(trial.job);
  }
  MoveShare(step.db, assignment.id, share, ShareState::kRunning, "", v1::FAULT_UNSPECIFIED);
  MoveAssignment(step.db, assignment, AssignmentState::kRunning, step.now);
  step.db.Execute("UPDATE assignments SET reason = '', fault = 0, stop_by = NULL WHERE id = ?",
                  {assignment.id});
  step.effects.actions.emplace_back(OpenRendezvous{assignment.name});
  return true;
}

}  // namespace

std::vector<std::string> Greet(Step& step, const v1::Hello& hello) {
  StoreWorker(step.db, hello, step.now);
  std::vector<std::string> unwanted;
  for (const std::string& name : hello.assignments()) {
    auto assignment = FindAssignment(step.db, name);
    if (!assignment.has_value()) {
      unwanted.push_back(name);
      continue;
    }
    const std::vector<ShareRow> shares = SharesOf(step.db, assignment->id);
    const auto share = FindShare(shares, hello.worker_id());
    const bool goes_on = share.has_value() && share->state == ShareState::kRunning &&
                         assignment->state == AssignmentState::kRunning;
    const bool taken_back = share.has_value() && share->state == ShareState::kLost &&
                            TakeBack(step, *assignment, *share, shares.size());
    if (goes_on || taken_back) continue;
    unwanted.push_back(name);
    // Until it says that it has ended, its devices are in use.
    if (share.has_value() && share->state == ShareState::kLost) {
      MoveShare(step.db, assignment->id, *share, ShareState::kRunning, share->reason, share->fault);
    }
  }
  return unwanted;
}

void Reconcile(Step& step, std::string_view worker, const std::vector<std::string>& running) {
  for (AssignmentRow& assignment : AssignmentsOnWorker(step.db, worker)) {
    if (std::find(running.begin(), running.end(), assignment.name) != running.end()) continue;
    const auto share = FindShare(SharesOf(step.db, assignment.id), worker);
    if (!share.has_value()) continue;
    LoseShare(
        step, assignment, *share,
        fmt::format("worker {} came back without it: it was restarted, or the assignment never "
                    "reached it",
                    worker));
  }
  step.effects.schedule = true;
}

void HandleEvent(Step& step, std::string_view worker, const v1::AssignmentEvent& event,
                 std::string& remark) {
  if (!Acknowledge(step.db, worker, event.incarnation(), event.sequence())) return;
  auto assignment = FindAssignment(step.db, event.assignment());
  if (!assignment.has_value()) {
    remark = fmt::format("there is no {}", event.assignment());
    return;
  }
  Subject subject{.assignment = *std::move(assignment)};
  subject.shares = SharesOf(step.db, subject.assignment.id);
  auto share = FindShare(subject.shares, worker);
  if (!share.has_value()) {
    remark = fmt::format("{} has no share of {}", worker, event.assignment());
    return;
  }
  subject.share = *std::move(share);
  switch (event.event_case()) {
    case v1::AssignmentEvent::kTrialEnded:
      ReportTrial(step, subject, event.trial_ended(), remark);
      return;
    case v1::AssignmentEvent::kEnded:
      ReportEnded(step, subject, event.ended());
      return;
    case v1::AssignmentEvent::kProgress:
      return;  // not stored
    case v1::AssignmentEvent::EVENT_NOT_SET:
      remark = "it says nothing";
      return;
    default:
      break;
  }
  const int position = event.has_started()   ? event.started().trial()
                       : event.has_samples() ? event.samples().trial()
                                             : event.log().trial();
  auto found = FindAttempt(step, subject.assignment, position);
  if (!found.has_value()) {
    remark = fmt::format("{} has no trial {}", event.assignment(), position);
    return;
  }
  auto& [trial, attempt] = *found;
  if (event.has_started()) {
    if (attempt.state != AttemptState::kClaimed) return;
    UpdateAttempt(step.db, attempt, AttemptState::kStarted, step.now);
  } else if (event.has_samples()) {
    StoreSamples(step.db, trial.id, attempt.number, event.samples().chunk());
  } else {
    AppendLog(step.db, trial.id, attempt.number, event.log().rank(), event.log().text());
  }
}

}  // namespace lcab::coordinator
