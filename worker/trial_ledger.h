// Which trials of an assignment are still open, and which account of a failure is believed. Pure
// bookkeeping, on times that the caller gives.
//
// A rank that loses another one fails too, often before the worker has learnt that the other died.
// Such an account (an infrastructure fault) is therefore held for a while: a better one, a signal
// or a limit, takes its place.

#ifndef LCAB_WORKER_TRIAL_LEDGER_H_
#define LCAB_WORKER_TRIAL_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::worker {

class TrialLedger {
 public:
  using Ended = v1::AssignmentEvent::TrialEnded;

  // `hold`: how long an account of an infrastructure fault waits for a better one.
  TrialLedger(const v1::Assign& assign, absl::Duration hold);

  // Whether the trial belongs to the assignment and has no result yet.
  bool open(int trial) const;
  bool all_settled() const;
  std::vector<int> OpenTrials() const;
  int attempt(int trial) const;
  const v1::TrialSpec& spec(int trial) const { return cohort_.trials(trial); }
  // Of the whole trial; suites always give one.
  absl::Duration timeout(int trial) const;

  void MarkStarted(int trial, absl::Time now);
  void CountSamples(int trial, int64_t iterations);

  // What a runner reported. The end of the trial to be sent on; nothing when it is held, or when
  // the trial is not open.
  std::optional<Ended> Report(int trial, const v1::TrialResult& result, absl::Time now);
  // What the worker itself found out. Nothing when the trial is not open.
  std::optional<Ended> Settle(int trial, const v1::TrialResult& result, absl::Time now);
  // Held accounts that no better one replaced; all of them when `all`.
  std::vector<Ended> TakeHeld(absl::Time now, bool all);
  absl::Time next_deadline() const;
  // What other ranks said of the trial, held so far: one line, or empty.
  std::string HeldReasons(int trial) const;

 private:
  struct Trial {
    int attempt = 0;
    bool settled = false;
    absl::Time started = absl::InfinitePast();
    int64_t iterations = 0;
    std::vector<v1::TrialResult> held;
    absl::Time held_until = absl::InfiniteFuture();
  };

  const v1::CohortSpec cohort_;
  const absl::Duration hold_;
  std::map<int, Trial> trials_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_TRIAL_LEDGER_H_
