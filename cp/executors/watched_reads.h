// What a kernel may only read, watched over one call: its bits must be the same before and after.

#ifndef LCAB_CP_EXECUTORS_WATCHED_READS_H_
#define LCAB_CP_EXECUTORS_WATCHED_READS_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cp/executors/device_steps.h"
#include "device/device.h"
#include "kernels/tensor.h"

namespace lcab::cp {

// DeviceSteps::Digest() of host memory.
uint64_t DigestOf(const TensorView& view, Workers& workers);

class WatchedReads {
 public:
  // Names must outlive this.
  explicit WatchedReads(std::vector<std::pair<std::string_view, TensorView>> reads)
      : reads_(std::move(reads)) {}

  absl::Status Before(DeviceSteps& steps, absl::Time deadline, Stream& stream);
  // After the call: the names of those that are not what they were.
  absl::StatusOr<std::vector<std::string_view>> Changed(DeviceSteps& steps, absl::Time deadline,
                                                        Stream& stream) const;

 private:
  const std::vector<std::pair<std::string_view, TensorView>> reads_;
  std::vector<uint64_t> digests_;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_WATCHED_READS_H_
