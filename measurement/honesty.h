// Honesty: that the timed iterations did the work. Every iteration's output leaves a fingerprint,
// taken outside the timed region, and must agree with that of other iterations on the same inputs,
// some of which are compared with fp64; nothing may be left of the poison put in before it; and
// inputs must not change under a kernel's hand.

#ifndef LCAB_MEASUREMENT_HONESTY_H_
#define LCAB_MEASUREMENT_HONESTY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cp/executor.h"
#include "device/device.h"
#include "measurement/findings.h"

namespace lcab::measurement {

// Of some shards: for each head and stratum of 64 rows a projection on drawn weights, so that one
// row that differs shows at any length, and a digest of all bits.
struct Fingerprint {
  struct Stratum {
    Tensor tensor = Tensor::kOut;
    int64_t head = 0;
    int64_t first_token = 0;
    double projection = 0;
    double energy = 0;  // sum of squares of what was projected
  };
  struct Place {
    Tensor tensor = Tensor::kOut;
    int64_t head = 0;
    int64_t token = 0;
  };
  std::vector<Stratum> strata;
  uint64_t digest = 0;
  int64_t unwritten = 0;  // elements that still hold the poison
  int64_t nans = 0;       // elements that are NaN but not the poison
  std::optional<Place> first_unwritten, first_nan;
};

// `seed` draws the weights. Rows that hold no token do not count.
absl::StatusOr<Fingerprint> TakeFingerprint(std::span<const cp::Shard> shards, uint64_t seed,
                                            Device& device, absl::Time deadline);

// Judges the iterations of one trial on one rank.
class FingerprintJudge {
 public:
  // Deterministic kernels must repeat every bit; others may differ by what the order of sums does
  // to values of the dtype.
  FingerprintJudge(DType dtype, bool deterministic)
      : dtype_(dtype), deterministic_(deterministic) {}

  // The output of `iteration` (for messages), computed from inputs number `inputs`.
  void Judge(const Fingerprint& fingerprint, int64_t iteration, int inputs, Findings* findings);

 private:
  struct First {
    Fingerprint fingerprint;
    int64_t iteration = 0;
  };

  const DType dtype_;
  const bool deterministic_;
  std::map<int, First> first_;  // by inputs
};

// A finding when a rate is above what the device's arithmetic can do. `peak_flops` 0: unknown.
void CheckRate(int64_t flops, double seconds, double peak_flops, Findings* findings);

// A finding when a shard's bits are not those of `before`.
void CheckUnchanged(const Fingerprint& before, const Fingerprint& now, std::string_view what,
                    Findings* findings);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_HONESTY_H_
