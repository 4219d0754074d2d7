// Who uses which device of this worker. An assignment that is being ended may still hold its
// devices for the length of its grace period when the next one arrives; that one waits here.

#ifndef LCAB_WORKER_DEVICE_LEASES_H_
#define LCAB_WORKER_DEVICE_LEASES_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lcab::worker {

// Thread-safe.
class DeviceLeases {
 public:
  // Waits until `holder` has all of the devices, at once. DeadlineExceeded names who holds one;
  // Cancelled when `give_up` says so (see Wake).
  absl::Status Acquire(const std::vector<std::string>& devices, const std::string& holder,
                       absl::Time deadline, const std::function<bool()>& give_up);
  // Gives back all that the holder has.
  void Release(const std::string& holder);
  // Devices in use.
  int held();
  // Makes those who wait ask again whether to give up.
  void Wake();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> holders_;  // by device
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_DEVICE_LEASES_H_
