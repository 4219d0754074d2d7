// Votes among the ranks of an attempt: each gives a ballot, rank 0 makes a verdict of all, every
// rank gets it. They travel by the rendezvous and never by a communicator, which may be what broke.
//
//   Verdict verdict = votes.Hold("ready", status, /*content=*/"", deadline);
//   if (!verdict.status.ok()) ...   // the same on every rank, and verdict.rank says whose it is

#ifndef LCAB_MEASUREMENT_VOTES_H_
#define LCAB_MEASUREMENT_VOTES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cp/transport.h"

namespace lcab::measurement {

struct Verdict {
  absl::Status status;  // of the vote: ok when every rank's was
  int rank = -1;        // whose failure the status is; -1 when there is none
  std::string content;  // what rank 0 decided
  bool heard = true;    // rank 0's verdict was heard, so that rank 0 knows it too
};

// Which of several failures is the cause. A rank that lost its peer reports DeadlineExceeded,
// Unavailable or Aborted as a consequence, so those give way to any other, and to each other in
// this order; among equals the lowest rank counts. -1 when all are ok.
int CauseAmong(std::span<const absl::Status> statuses);

// A rank may come late to a vote, but not for long to one that has failed.
inline constexpr absl::Duration kFailureGrace = absl::Seconds(5);

class Votes {
 public:
  // What rank 0 makes of the contents of all ballots, in order of rank. Called on rank 0 only, and
  // only when every rank's status is ok; an error becomes the verdict of all.
  using Decide = std::function<absl::StatusOr<std::string>(std::span<const std::string> contents)>;

  // `prefix` distinguishes these votes from others of the same rendezvous, which may be null for
  // one rank and must outlive this.
  Votes(int rank, int ranks, std::string prefix, cp::Rendezvous* rendezvous);

  // All ranks must hold the same votes in the same order: Internal otherwise. `status` is how this
  // rank fares: whatever it is, it is told to the others, so that nobody waits for a rank that
  // failed. A rank that gives no ballot until the deadline makes it DeadlineExceeded for all, with
  // the rank named; once a failure is known, the others have kFailureGrace left. Aborted when the
  // attempt was aborted.
  Verdict Hold(std::string_view topic, const absl::Status& status, std::string content,
               absl::Time deadline, const Decide& decide = nullptr);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int64_t held() const { return held_; }

 private:
  Verdict Preside(std::string_view topic, const absl::Status& status, std::string content,
                  absl::Time deadline, const Decide& decide);
  std::string KeyOf(std::string_view part) const;

  const int rank_;
  const int ranks_;
  const std::string prefix_;
  cp::Rendezvous* rendezvous_;
  int64_t held_ = 0;
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_VOTES_H_
