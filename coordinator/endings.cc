#include "coordinator/endings.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/event_table.h"
#include "coordinator/job_table.h"
#include "coordinator/resource_names.h"
#include "fmt/format.h"
#include "proto/proto_time.h"
#include "suites/enum_names.h"

namespace lcab::coordinator {
namespace {

// After the grace, for the workers' words to arrive: with a grace of 5 s, an attempt ends within 8
// s of its fault.
constexpr absl::Duration kAnswerTime = absl::Seconds(3);

bool IsOpen(const AttemptRow& attempt) {
  return attempt.state == AttemptState::kClaimed || attempt.state == AttemptState::kStarted;
}

v1::TrialResult WithoutFigures(v1::Outcome outcome, v1::Fault fault, std::string_view reason,
                               absl::Time now) {
  v1::TrialResult result;
  result.set_outcome(outcome);
  result.set_fault(fault);
  result.set_reason(std::string(reason));
  result.set_rank(-1);
  *result.mutable_end_time() = ToProto(now);
  return result;
}

// After an attempt that failed for infrastructure: another one, or the end.
void TryAgainOrSettle(Step& step, TrialRow trial, const AttemptRow& attempt) {
  const auto fresh = FindTrial(step.db, trial.id);  // `counted` has changed
  if (!fresh.has_value()) return;
  trial = *fresh;
  if (trial.counted < step.max_attempts) {
    MoveTrial(step.db, trial, TrialState::kPending);
    step.effects.schedule = true;
    step.effects.jobs.insert(trial.job);
    const std::string message =
        attempt.counted
            ? fmt::format("attempt {} failed ({} of {} used): {}; it will be tried again",
                          attempt.number, trial.counted, step.max_attempts, attempt.reason)
            : fmt::format("attempt {} ended and does not count: {}", attempt.number,
                          attempt.reason);
    AppendEvent(step.db, trial.job, &trial, message, step.now);
    return;
  }
  const std::string reason =
      step.max_attempts == 1
          ? attempt.reason
          : fmt::format("{} attempts failed; the last: {}", trial.counted, attempt.reason);
  SettleTrial(step, trial, attempt.number,
              WithoutFigures(attempt.outcome, attempt.fault, reason, step.now), reason);
}

// What becomes of one attempt when its assignment closes.
struct Closing {
  bool lost = false;        // a worker was
  bool cancelling = false;  // the job is
  // Some trial of it started or was settled: those that did neither are not charged.
  bool began = false;
  std::optional<std::string> culprit;  // what the trial at fault reported
  std::string reason;
};

// The attempt that took the runners of its cohort with it; null when none did. One that completed
// does not say why the others ended, and one that was short of memory only where no other does: its
// runner may have lived on.
const AttemptRow* CulpritAmong(const std::vector<AttemptRow>& attempts) {
  const AttemptRow* short_of_memory = nullptr;
  for (const AttemptRow& attempt : attempts) {
    if (attempt.suspected.has_value() || attempt.outcome == v1::OUTCOME_CRASHED ||
        attempt.outcome == v1::OUTCOME_TIMED_OUT) {
      return &attempt;
    }
    if (attempt.outcome == v1::OUTCOME_OUT_OF_MEMORY && short_of_memory == nullptr) {
      short_of_memory = &attempt;
    }
  }
  return short_of_memory;
}

void CloseAttempt(Step& step, AttemptRow& attempt, const Closing& closing) {
  auto found = FindTrial(step.db, attempt.trial);
  if (!found.has_value()) return;
  TrialRow& trial = *found;
  if (trial.state != TrialState::kRunning || trial.attempts != attempt.number) {
    EndAttempt(step, trial, attempt, AttemptState::kEnded, v1::OUTCOME_CANCELLED,
               v1::FAULT_UNSPECIFIED, "another attempt settled the trial", /*counted=*/false);
    return;
  }
  if (attempt.suspected.has_value() && IsConclusive(*attempt.suspected)) {
    const v1::TrialResult result = *std::exchange(attempt.suspected, std::nullopt);
    EndAttempt(step, trial, attempt, AttemptState::kEnded, result.outcome(), result.fault(),
               result.reason(), /*counted=*/true);
    SettleTrial(step, trial, attempt.number, result, result.reason());
    return;
  }
  const AttemptState over = closing.lost ? AttemptState::kLost : AttemptState::kEnded;
  if (closing.cancelling) {
    // Whether a lost worker still computes is not known: that is not `cancelled`.
    const v1::Outcome outcome = closing.lost ? v1::OUTCOME_LOST : v1::OUTCOME_CANCELLED;
    const v1::Fault fault = closing.lost ? v1::FAULT_INFRASTRUCTURE : v1::FAULT_UNSPECIFIED;
    EndAttempt(step, trial, attempt, over, outcome, fault, closing.reason, /*counted=*/true);
    SettleTrial(step, trial, attempt.number,
                WithoutFigures(outcome, fault, closing.reason, step.now), closing.reason);
    return;
  }
  if (attempt.suspected.has_value()) {
    const v1::TrialResult result = *std::exchange(attempt.suspected, std::nullopt);
    // A rank that says it lost another is an echo of the worker that was lost.
    EndAttempt(step, trial, attempt, over, closing.lost ? v1::OUTCOME_LOST : result.outcome(),
               result.fault(), closing.lost ? closing.reason : result.reason(), /*counted=*/true);
  } else if (closing.culprit.has_value()) {
    EndAttempt(step, trial, attempt, over, v1::OUTCOME_CANCELLED, v1::FAULT_INFRASTRUCTURE,
               *closing.culprit, /*counted=*/false);
  } else {
    const bool charged = attempt.state == AttemptState::kStarted || !closing.began;
    const v1::Outcome outcome = closing.lost ? v1::OUTCOME_LOST
                                : charged    ? v1::OUTCOME_CRASHED
                                             : v1::OUTCOME_CANCELLED;
    EndAttempt(step, trial, attempt, over, outcome, v1::FAULT_INFRASTRUCTURE, closing.reason,
               charged);
  }
  TryAgainOrSettle(step, trial, attempt);
}

std::string ReasonOf(const AssignmentRow& assignment, const std::vector<ShareRow>& shares) {
  if (!assignment.reason.empty()) return assignment.reason;
  for (const ShareRow& share : shares) {
    if (!share.reason.empty()) return fmt::format("worker {}: {}", share.worker, share.reason);
  }
  return "the worker ended the assignment and did not say why";
}

}  // namespace

bool IsConclusive(const v1::TrialResult& result) {
  switch (result.outcome()) {
    case v1::OUTCOME_OK:
    case v1::OUTCOME_WRONG_RESULT:
    case v1::OUTCOME_UNSUPPORTED:
    case v1::OUTCOME_OUT_OF_MEMORY:
    case v1::OUTCOME_TIMED_OUT:
    case v1::OUTCOME_CRASHED:
      return result.fault() != v1::FAULT_INFRASTRUCTURE;
    default:
      return false;
  }
}

void SettleTrial(Step& step, TrialRow& trial, int attempt, const v1::TrialResult& result,
                 std::string_view message) {
  const TrialState to = result.outcome() == v1::OUTCOME_LOST        ? TrialState::kLost
                        : result.outcome() == v1::OUTCOME_CANCELLED ? TrialState::kCancelled
                                                                    : TrialState::kCompleted;
  MoveTrial(step.db, trial, to, result.outcome());
  StoreResult(step.db, trial, attempt, result);
  const std::string outcome = suites::Name(result.outcome());
  AppendEvent(step.db, trial.job, &trial,
              message.empty() ? outcome : fmt::format("{}: {}", outcome, message), step.now);
  step.effects.jobs.insert(trial.job);
  step.effects.actions.emplace_back(TrialEnded{.trial = TrialName(trial.job, trial.number),
                                               .kernel = trial.kernel,
                                               .mask = trial.mask,
                                               .strategy = trial.strategy,
                                               .pass = trial.pass,
                                               .result = result});
  EndJobIfDone(step, trial.job);
}

void EndAttempt(Step& step, const TrialRow& trial, AttemptRow& attempt, AttemptState to,
                v1::Outcome outcome, v1::Fault fault, std::string_view reason, bool counted) {
  attempt.outcome = outcome;
  attempt.fault = fault;
  attempt.reason = reason;
  attempt.counted = counted;
  attempt.suspected.reset();
  UpdateAttempt(step.db, attempt, to, step.now);
  step.effects.actions.emplace_back(AttemptEnded{.trial = TrialName(trial.job, trial.number),
                                                 .number = attempt.number,
                                                 .outcome = outcome,
                                                 .fault = fault,
                                                 .counted = counted,
                                                 .reason = attempt.reason});
}

void EndJobIfDone(Step& step, int64_t job) {
  const auto state = GetJobState(step.db, job);
  const auto loaded = LoadJob(step.db, job, /*with_suite_text=*/false);
  if (!state.has_value() || !loaded.has_value()) return;
  const v1::TrialCounts& counts = loaded->counts();
  if (counts.pending() + counts.running() > 0) return;
  const JobState to = counts.cancelled() > 0                                 ? JobState::kCancelled
                      : counts.ok() + counts.unsupported() == counts.total() ? JobState::kSucceeded
                                                                             : JobState::kFailed;
  if (to == *state) return;
  MoveJob(step.db, job, *state, to, step.now);
  AppendEvent(step.db, job, nullptr, fmt::format("job {}", Name(to)), step.now);
  step.effects.jobs.insert(job);
}

absl::Time StopDeadline(const Step& step) { return step.now + step.grace + kAnswerTime; }

void StopAssignment(Step& step, AssignmentRow& assignment, std::string_view reason, v1::Fault fault,
                    std::optional<absl::Time> stop_by) {
  if (assignment.state != AssignmentState::kRunning) return;
  SetReason(step.db, assignment, reason, fault);
  SetStopBy(step.db, assignment, stop_by);
  MoveAssignment(step.db, assignment, AssignmentState::kStopping, step.now);
  step.effects.actions.emplace_back(AbortRendezvous{assignment.name, std::string(reason)});
  for (const ShareRow& share : SharesOf(step.db, assignment.id)) {
    if (share.state != ShareState::kRunning) continue;
    SendToWorker send{.worker = share.worker};
    send.message.mutable_cancel()->set_assignment(assignment.name);
    send.message.mutable_cancel()->set_reason(std::string(reason));
    step.effects.actions.emplace_back(std::move(send));
  }
}

void CloseIfDone(Step& step, AssignmentRow& assignment) {
  const std::vector<ShareRow> shares = SharesOf(step.db, assignment.id);
  const bool runs = std::any_of(shares.begin(), shares.end(), [](const ShareRow& share) {
    return share.state == ShareState::kRunning;
  });
  if (!runs) CloseAssignment(step, assignment);
}

void CloseAssignment(Step& step, AssignmentRow& assignment) {
  if (assignment.state != AssignmentState::kRunning &&
      assignment.state != AssignmentState::kStopping) {
    return;
  }
  const std::vector<ShareRow> shares = SharesOf(step.db, assignment.id);
  Closing closing;
  closing.lost = std::any_of(shares.begin(), shares.end(), [](const ShareRow& share) {
    return share.state == ShareState::kLost;
  });
  closing.cancelling = GetJobState(step.db, assignment.job) == JobState::kCancelling;
  closing.reason = ReasonOf(assignment, shares);
  std::vector<AttemptRow> attempts = AttemptsOf(step.db, assignment.id);
  for (const AttemptRow& attempt : attempts) {
    closing.began =
        closing.began || attempt.state == AttemptState::kStarted ||
        (attempt.state == AttemptState::kEnded && attempt.outcome != v1::OUTCOME_CANCELLED);
  }
  if (const AttemptRow* attempt = CulpritAmong(attempts); attempt != nullptr) {
    const auto trial = FindTrial(step.db, attempt->trial);
    closing.culprit = fmt::format(
        "trial {} of its cohort ended the assignment: {}", trial.has_value() ? trial->number : -1,
        attempt->suspected.has_value() ? attempt->suspected->reason() : attempt->reason);
  }
  MoveAssignment(step.db, assignment,
                 closing.lost ? AssignmentState::kLost : AssignmentState::kClosed, step.now);
  step.effects.actions.emplace_back(CloseRendezvous{assignment.name});
  step.effects.schedule = true;
  for (AttemptRow& attempt : attempts) {
    if (IsOpen(attempt)) CloseAttempt(step, attempt, closing);
  }
}

void LoseShare(Step& step, AssignmentRow& assignment, const ShareRow& share,
               std::string_view reason) {
  MoveShare(step.db, assignment.id, share, ShareState::kLost, reason, v1::FAULT_INFRASTRUCTURE);
  step.effects.schedule = true;
  StopAssignment(step, assignment, reason, v1::FAULT_INFRASTRUCTURE, StopDeadline(step));
  CloseIfDone(step, assignment);
}

}  // namespace lcab::coordinator
