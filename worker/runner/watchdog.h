// Acts when something takes too long, from a thread of its own.

#ifndef LCAB_WORKER_RUNNER_WATCHDOG_H_
#define LCAB_WORKER_RUNNER_WATCHDOG_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace lcab::runner {

class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  struct Alarm {
    absl::Time when;
    std::function<void()> act;  // in the watchdog's thread
  };
  // Replaces the alarms that were set; in order of time.
  void Set(std::vector<Alarm> alarms);
  // No alarm that was set acts after this returns.
  void Clear();

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Alarm> alarms_;  // the next one last
  bool acting_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_WATCHDOG_H_
