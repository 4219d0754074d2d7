// One rank of an assignment as its worker sees it: the runner, the trial it is at, and the time it
// has spent on each.

#ifndef LCAB_WORKER_RANK_STATE_H_
#define LCAB_WORKER_RANK_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "device/device.h"
#include "worker/rank_output.h"
#include "worker/runner_process.h"

namespace lcab::worker {

// A device of this worker, and what a rank on it may use.
struct DeviceSlot {
  DeviceKind kind = DeviceKind::kCpu;
  std::string id;  // "cpu:0", "GPU-<uuid>"
  int index = 0;   // of its kind
  int threads = 1;
  std::vector<int> cpus;           // empty: not bound
  int64_t memory_limit_bytes = 0;  // of one runner; 0: none
};

// The trials of a cohort take turns, so a trial's time is the sum of its turns.
class TrialClock {
 public:
  explicit TrialClock(absl::Time now) : since_(now) {}

  void TurnTo(int trial, absl::Time now) {
    Account(now);
    trial_ = trial;
  }
  // Whether this rank's peers cannot be met: the coordinator between them is away.
  void SetApart(bool apart, absl::Time now) {
    Account(now);
    apart_ = apart;
  }
  bool apart() const { return apart_; }
  int trial() const { return trial_; }  // -1: none yet
  // On the current trial, apart or not.
  absl::Duration Spent(absl::Time now) const { return Of(spent_, trial_) + (now - since_); }
  // Of that, while apart.
  absl::Duration Apart(int trial, absl::Time now) const {
    return Of(apart_for_, trial) +
           (apart_ && trial == trial_ ? now - since_ : absl::ZeroDuration());
  }

 private:
  using Durations = std::map<int, absl::Duration>;

  static absl::Duration Of(const Durations& durations, int trial) {
    const auto found = durations.find(trial);
    return found == durations.end() ? absl::ZeroDuration() : found->second;
  }
  void Account(absl::Time now) {
    spent_[trial_] += now - since_;
    if (apart_) apart_for_[trial_] += now - since_;
    since_ = now;
  }

  int trial_ = -1;
  bool apart_ = false;
  absl::Time since_;
  Durations spent_;
  Durations apart_for_;
};

struct RankState {
  RankState(int number, const DeviceSlot& device, std::unique_ptr<RunnerProcess> process,
            int first_trial, absl::Time now)
      : rank(number),
        slot(device),
        runner(std::move(process)),
        output(first_trial),
        clock(now),
        idle_since(now) {}

  bool over() const { return done || gone; }

  const int rank;
  const DeviceSlot& slot;
  std::unique_ptr<RunnerProcess> runner;
  RankOutput output;
  TrialClock clock;
  std::string stage;
  absl::Time idle_since;     // when its trial settled, or it was started
  bool after_fault = false;  // that trial crashed or hung
  bool channel_open = true;
  std::string broken;    // why we killed it, when it was not a limit
  bool done = false;     // it ended its cohort
  bool discard = false;  // and must not be used again
  bool gone = false;     // its process has ended
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_RANK_STATE_H_
