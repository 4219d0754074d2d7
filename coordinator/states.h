// The states of everything that the store keeps, and the one table of moves between them. Whoever
// moves something goes through here: an update is `WHERE state = from`, and from -> to is in the
// table.

#ifndef LCAB_COORDINATOR_STATES_H_
#define LCAB_COORDINATOR_STATES_H_

#include <span>
#include <string_view>

#include "lcab/v1/jobs.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

// The numbers are stored: they never change.
enum class JobState {
  kQueued = 1,
  kRunning = 2,
  kSucceeded = 3,
  kFailed = 4,
  kCancelled = 5,
  kCancelling = 6,
};

enum class TrialState {
  kPending = 1,
  kRunning = 2,
  // The first attempt to complete settled it, well or badly.
  kCompleted = 3,
  // Its last attempt was lost with its worker. A result may still come.
  kLost = 4,
  kCancelled = 5,
};

enum class AttemptState {
  kClaimed = 1,
  kStarted = 2,
  kEnded = 3,
  kLost = 4,
};

enum class AssignmentState {
  kRunning = 1,
  // Its workers were told to stop; it waits for their word that nothing of it runs.
  kStopping = 2,
  kClosed = 3,
  // Closed because a worker was lost.
  kLost = 4,
};

// A worker's part of an assignment.
enum class ShareState {
  kRunning = 1,
  kEnded = 2,
  kLost = 3,
};

// Why a move may happen. docs/service.md prints this table.
template <typename State>
struct Move {
  State from;
  State to;
  std::string_view cause;
};

std::span<const Move<JobState>> JobMoves();
std::span<const Move<TrialState>> TrialMoves();
std::span<const Move<AttemptState>> AttemptMoves();
std::span<const Move<AssignmentState>> AssignmentMoves();
std::span<const Move<ShareState>> ShareMoves();

bool IsLegal(JobState from, JobState to);
bool IsLegal(TrialState from, TrialState to);
bool IsLegal(AttemptState from, AttemptState to);
bool IsLegal(AssignmentState from, AssignmentState to);
bool IsLegal(ShareState from, ShareState to);

std::string_view Name(JobState state);
std::string_view Name(TrialState state);
std::string_view Name(AttemptState state);
std::string_view Name(AssignmentState state);
std::string_view Name(ShareState state);

// No trial of it will run, unless somebody retries it.
bool HasEnded(JobState state);
bool HasEnded(TrialState state);

// As the API shows them.
v1::JobState ForApi(JobState state);
v1::TrialState ForApi(TrialState state);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_STATES_H_
