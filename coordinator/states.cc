#include "coordinator/states.h"

#include <algorithm>

namespace lcab::coordinator {
namespace {

constexpr Move<JobState> kJobMoves[] = {
    {JobState::kQueued, JobState::kRunning, "its first trial was placed"},
    {JobState::kQueued, JobState::kSucceeded, "every trial ended without being placed again"},
    {JobState::kQueued, JobState::kFailed, "every trial ended without being placed again"},
    {JobState::kQueued, JobState::kCancelled, "cancelled while nothing of it ran"},
    {JobState::kRunning, JobState::kSucceeded, "every trial ended `ok` or `unsupported`"},
    {JobState::kRunning, JobState::kFailed, "every trial ended, some otherwise"},
    {JobState::kRunning, JobState::kCancelled, "cancelled while nothing of it ran"},
    {JobState::kRunning, JobState::kCancelling, "cancelled while some of it ran"},
    {JobState::kCancelling, JobState::kCancelled, "nothing of it runs any more"},
    {JobState::kCancelling, JobState::kSucceeded, "every trial had a result of its own first"},
    {JobState::kCancelling, JobState::kFailed, "every trial had an outcome of its own first"},
    {JobState::kFailed, JobState::kSucceeded, "a lost trial's result came late"},
    {JobState::kFailed, JobState::kQueued, "retried"},
    {JobState::kCancelled, JobState::kQueued, "retried"},
};

constexpr Move<TrialState> kTrialMoves[] = {
    {TrialState::kPending, TrialState::kRunning, "placed, or found running on a worker again"},
    {TrialState::kPending, TrialState::kCompleted,
     "known to be unsupported, or the result of a lost attempt came late"},
    {TrialState::kPending, TrialState::kCancelled, "its job was cancelled"},
    {TrialState::kRunning, TrialState::kPending, "its attempt ended and another is due"},
    {TrialState::kRunning, TrialState::kCompleted, "an attempt completed"},
    {TrialState::kRunning, TrialState::kLost, "lost with its worker, and no other attempt is due"},
    {TrialState::kRunning, TrialState::kCancelled, "its job was cancelled and no runner is left"},
    {TrialState::kLost, TrialState::kCompleted, "the result came late"},
    {TrialState::kCompleted, TrialState::kPending, "retried (not `ok`, wrong or unsupported ones)"},
    {TrialState::kLost, TrialState::kPending, "retried"},
    {TrialState::kCancelled, TrialState::kPending, "retried"},
};

constexpr Move<AttemptState> kAttemptMoves[] = {
    {AttemptState::kClaimed, AttemptState::kStarted, "a runner began"},
    {AttemptState::kClaimed, AttemptState::kEnded, "it ended before a runner began"},
    {AttemptState::kClaimed, AttemptState::kLost, "its worker was lost"},
    {AttemptState::kStarted, AttemptState::kEnded, "it ended"},
    {AttemptState::kStarted, AttemptState::kLost, "its worker was lost"},
    {AttemptState::kLost, AttemptState::kEnded, "its result came late"},
    {AttemptState::kLost, AttemptState::kStarted, "its worker came back with it"},
};

constexpr Move<AssignmentState> kAssignmentMoves[] = {
    {AssignmentState::kRunning, AssignmentState::kStopping, "a fault, a cancel, or overdue"},
    {AssignmentState::kRunning, AssignmentState::kClosed, "all its workers are done"},
    {AssignmentState::kRunning, AssignmentState::kLost, "a worker was lost and no other is left"},
    {AssignmentState::kStopping, AssignmentState::kClosed, "all its workers are done, or in time"},
    {AssignmentState::kStopping, AssignmentState::kLost, "a worker was lost and no other is left"},
    {AssignmentState::kLost, AssignmentState::kRunning, "its worker came back with it"},
};

constexpr Move<ShareState> kShareMoves[] = {
    {ShareState::kRunning, ShareState::kEnded, "the worker says that nothing of it runs"},
    {ShareState::kRunning, ShareState::kLost, "the worker was lost"},
    {ShareState::kLost, ShareState::kRunning, "the worker came back with it"},
    {ShareState::kLost, ShareState::kEnded, "the worker came back and says that it is over"},
};

template <typename State>
bool InTable(std::span<const Move<State>> moves, State from, State to) {
  return std::any_of(moves.begin(), moves.end(),
                     [&](const Move<State>& move) { return move.from == from && move.to == to; });
}

}  // namespace

std::span<const Move<JobState>> JobMoves() { return kJobMoves; }
std::span<const Move<TrialState>> TrialMoves() { return kTrialMoves; }
std::span<const Move<AttemptState>> AttemptMoves() { return kAttemptMoves; }
std::span<const Move<AssignmentState>> AssignmentMoves() { return kAssignmentMoves; }
std::span<const Move<ShareState>> ShareMoves() { return kShareMoves; }

bool IsLegal(JobState from, JobState to) { return InTable(JobMoves(), from, to); }
bool IsLegal(TrialState from, TrialState to) { return InTable(TrialMoves(), from, to); }
bool IsLegal(AttemptState from, AttemptState to) { return InTable(AttemptMoves(), from, to); }
bool IsLegal(AssignmentState from, AssignmentState to) {
  return InTable(AssignmentMoves(), from, to);
}
bool IsLegal(ShareState from, ShareState to) { return InTable(ShareMoves(), from, to); }

std::string_view Name(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kSucceeded:
      return "succeeded";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
    case JobState::kCancelling:
      return "cancelling";
  }
  return "unknown";
}

std::string_view Name(TrialState state) {
  switch (state) {
    case TrialState::kPending:
      return "pending";
    case TrialState::kRunning:
      return "running";
    case TrialState::kCompleted:
      return "completed";
    case TrialState::kLost:
      return "lost";
    case TrialState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string_view Name(AttemptState state) {
  switch (state) {
    case AttemptState::kClaimed:
      return "claimed";
    case AttemptState::kStarted:
      return "started";
    case AttemptState::kEnded:
      return "ended";
    case AttemptState::kLost:
      return "lost";
  }
  return "unknown";
}

std::string_view Name(AssignmentState state) {
  switch (state) {
    case AssignmentState::kRunning:
      return "running";
    case AssignmentState::kStopping:
      return "stopping";
    case AssignmentState::kClosed:
      return "closed";
    case AssignmentState::kLost:
      return "lost";
  }
  return "unknown";
}

std::string_view Name(ShareState state) {
  switch (state) {
    case ShareState::kRunning:
      return "running";
    case ShareState::kEnded:
      return "ended";
    case ShareState::kLost:
      return "lost";
  }
  return "unknown";
}

bool HasEnded(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool HasEnded(TrialState state) {
  return state != TrialState::kPending && state != TrialState::kRunning;
}

v1::JobState ForApi(JobState state) { return static_cast<v1::JobState>(state); }

v1::TrialState ForApi(TrialState state) {
  if (state == TrialState::kPending) return v1::TRIAL_STATE_PENDING;
  return state == TrialState::kRunning ? v1::TRIAL_STATE_RUNNING : v1::TRIAL_STATE_DONE;
}

}  // namespace lcab::coordinator
