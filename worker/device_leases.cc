#include "worker/device_leases.h"

#include <fmt/format.h>

#include <chrono>

namespace lcab::worker {

absl::Status DeviceLeases::Acquire(const std::vector<std::string>& devices,
                                   const std::string& holder, absl::Time deadline,
                                   const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  std::string taken;  // the first device that is not free
  const auto all_free = [&] {
    for (const std::string& device : devices) {
      if (holders_.count(device) > 0) {
        taken = device;
        return false;
      }
    }
    return true;
  };
  const auto over = [&] { return give_up() || all_free(); };
  if (!changed_.wait_until(lock, absl::ToChronoTime(deadline), over)) {
    return absl::DeadlineExceededError(
        fmt::format("device {} is still in use by {}", taken, holders_[taken]));
  }
  if (give_up()) return absl::CancelledError("given up before its devices were free");
  for (const std::string& device : devices) holders_[device] = holder;
  return absl::OkStatus();
}

void DeviceLeases::Release(const std::string& holder) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(holders_, [&](const auto& entry) { return entry.second == holder; });
  }
  changed_.notify_all();
}

int DeviceLeases::held() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(holders_.size());
}

void DeviceLeases::Wake() {
  // The lock orders this after a waiter's last look at its condition.
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

}  // namespace lcab::worker
