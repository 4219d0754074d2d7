// What one rank's runner prints, charged to the trial that it was at, bounded for each trial, and
// gathered into pieces so that a chatty kernel does not make an event of every line. Pure
// bookkeeping, on times that the caller gives.

#ifndef LCAB_WORKER_RANK_OUTPUT_H_
#define LCAB_WORKER_RANK_OUTPUT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "worker/bounded_log.h"

namespace lcab::worker {

class RankOutput {
 public:
  struct Piece {
    int trial = 0;
    std::string text;
  };

  // `first_trial` is charged with what comes before any trial is named.
  explicit RankOutput(int first_trial) : trial_(first_trial) {}

  // Output from now on belongs to this trial.
  void TurnTo(int trial) { trial_ = trial; }
  void Append(std::string_view text, absl::Time now);
  // Pieces that are large enough or have waited long enough.
  std::vector<Piece> TakeDue(absl::Time now);
  // All that is left of a trial, with its cut end.
  std::vector<Piece> Flush(int trial);
  std::vector<Piece> FlushAll();
  // The end of what was printed during the current trial.
  std::string_view last() const;
  absl::Time next_deadline() const;

 private:
  struct Trial {
    BoundedLog log;
    std::string pending;
    absl::Time since = absl::InfiniteFuture();  // of pending
  };
  int trial_;
  std::map<int, Trial> trials_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_RANK_OUTPUT_H_
