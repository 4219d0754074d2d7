#include "worker/runner/watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"

namespace lcab::runner {

Watchdog::Watchdog() : thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    alarms_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::Set(std::vector<Alarm> alarms) {
  std::reverse(alarms.begin(), alarms.end());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !acting_; });
  alarms_ = std::move(alarms);
  changed_.notify_all();
}

void Watchdog::Clear() { Set({}); }

void Watchdog::Watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (alarms_.empty()) {
      changed_.wait(lock, [this] { return ended_ || !alarms_.empty(); });
      continue;
    }
    const absl::Time when = alarms_.back().when;
    const absl::Duration left = when - absl::Now();
    if (left > absl::ZeroDuration()) {
      // In pieces: a duration of years overflows the clock of a condition variable.
      const absl::Duration piece = std::min(left, absl::Hours(1));
      changed_.wait_for(lock, absl::ToChronoNanoseconds(piece));
      continue;
    }
    const std::function<void()> act = std::move(alarms_.back().act);
    alarms_.pop_back();
    acting_ = true;
    lock.unlock();
    act();
    lock.lock();
    acting_ = false;
    changed_.notify_all();
  }
}

}  // namespace lcab::runner
