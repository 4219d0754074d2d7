#include "measurement/stopping.h"

#include "measurement/statistics.h"

namespace lcab::measurement {

std::string_view Name(StopReason reason) {
  switch (reason) {
    case StopReason::kPrecision:
      return "precision";
    case StopReason::kMaxTime:
      return "max_time";
    case StopReason::kMaxSamples:
      return "max_samples";
    case StopReason::kAllThrottled:
      return "all_throttled";
  }
  return "unknown";
}

void StoppingCriterion::AddSample(double seconds) {
  ++samples_;
  DoAddSample(seconds);
}

std::optional<StopReason> StoppingCriterion::Decide(absl::Duration elapsed) {
  const int64_t taken = samples_ + discarded_;
  if (taken == 0) return std::nullopt;
  if (samples_ >= limits_.min_samples && DoIsPrecise()) return StopReason::kPrecision;
  const bool out_of_time = elapsed >= limits_.max_time;
  if (!out_of_time && taken < limits_.max_samples) return std::nullopt;
  if (samples_ == 0) return StopReason::kAllThrottled;
  return out_of_time ? StopReason::kMaxTime : StopReason::kMaxSamples;
}

bool MedianPrecision::DoIsPrecise() {
  // Sorting at each of a million samples would take longer than the samples; a twentieth more of
  // them narrows the interval by a fortieth.
  const size_t n = values_.size();
  if (n > decided_at_ + decided_at_ / 20 || decided_at_ == 0) {
    decided_at_ = n;
    const MedianInterval interval = IntervalOfMedian(Sorted(values_), limits().confidence);
    precise_ = interval.confidence >= limits().confidence &&
               interval.high - interval.low <= 2 * limits().precision * interval.median;
  }
  return precise_;
}

}  // namespace lcab::measurement
