// A rendezvous among threads for tests of votes: waits end when the test says so, not by the clock.

#ifndef LCAB_MEASUREMENT_RENDEZVOUS_FOR_TEST_H_
#define LCAB_MEASUREMENT_RENDEZVOUS_FOR_TEST_H_

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cp/transport.h"

namespace lcab::measurement {

class FakeRendezvous : public cp::Rendezvous {
 public:
  absl::Status Put(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_.emplace(key, value);
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(std::string_view key, absl::Time deadline) override {
    std::unique_lock lock(mutex_);
    deadlines_[std::string(key)] = deadline;
    while (true) {
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      if (!abort_.ok()) return abort_;
      if (expired_) return absl::DeadlineExceededError("no such key in time");
      changed_.wait(lock);
    }
  }

  // Nobody waits any more: what is not there does not come in time.
  void Expire() {
    const std::lock_guard lock(mutex_);
    expired_ = true;
    changed_.notify_all();
  }
  void Abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    abort_ = absl::AbortedError(reason);
    changed_.notify_all();
  }
  // With which a key was asked for.
  absl::Time deadline(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return deadlines_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, absl::Time> deadlines_;
  absl::Status abort_;
  bool expired_ = false;
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_RENDEZVOUS_FOR_TEST_H_
