// The time that a trial has used and has left. Trials of a cohort take turns, so a trial's clock
// runs only while it is its turn.

#ifndef LCAB_WORKER_RUNNER_TRIAL_CLOCK_H_
#define LCAB_WORKER_RUNNER_TRIAL_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lcab::runner {

class TrialClock {
 public:
  explicit TrialClock(absl::Duration limit) : limit_(limit) {}

  void Start() { started_ = absl::Now(); }
  void Stop() { used_ += absl::Now() - started_; }
  // While it runs: when the limit is reached if it goes on running.
  absl::Time deadline() const { return started_ + (limit_ - used_); }
  absl::Duration limit() const { return limit_; }

 private:
  absl::Duration limit_;
  absl::Duration used_;
  absl::Time started_ = absl::InfinitePast();
};

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_TRIAL_CLOCK_H_
