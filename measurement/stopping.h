// When to stop sampling: a criterion of precision, between a minimum of samples and caps in time
// and samples.
//
//   MedianPrecision criterion({.min_samples = 10, .max_time = absl::Seconds(5)});
//   criterion.AddSample(seconds);
//   if (std::optional<StopReason> reason = criterion.Decide(elapsed)) ...
//
// To add a criterion: derive from StoppingCriterion and give DoAddSample() and DoIsPrecise().

#ifndef LCAB_MEASUREMENT_STOPPING_H_
#define LCAB_MEASUREMENT_STOPPING_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace lcab::measurement {

enum class StopReason {
  kPrecision,     // as precise as asked
  kMaxTime,       // the cap in time
  kMaxSamples,    // the cap in samples
  kAllThrottled,  // a cap was reached with every sample discarded
};
std::string_view Name(StopReason reason);

struct StoppingLimits {
  int64_t min_samples = 10;
  int64_t max_samples = 10'000;                // kept or discarded
  absl::Duration max_time = absl::Seconds(5);  // spent sampling, all that surrounds it included
  double confidence = 0.95;                    // of the confidence interval of the median
  double precision = 0.02;                     // its half width as a share of the median
};

class StoppingCriterion {
 public:
  explicit StoppingCriterion(const StoppingLimits& limits) : limits_(limits) {}
  virtual ~StoppingCriterion() = default;

  // A sample that counts; `seconds` > 0.
  void AddSample(double seconds);
  // A sample that was taken and thrown away.
  void AddDiscarded() { ++discarded_; }

  // Nothing while sampling should go on. The caps hold before min_samples too, once there is any
  // sample; precision only from min_samples on. `elapsed` is the time that sampling has taken.
  std::optional<StopReason> Decide(absl::Duration elapsed);

  int64_t samples() const { return samples_; }
  int64_t discarded() const { return discarded_; }
  const StoppingLimits& limits() const { return limits_; }

 private:
  virtual void DoAddSample(double seconds) = 0;
  virtual bool DoIsPrecise() = 0;

  const StoppingLimits limits_;
  int64_t samples_ = 0;
  int64_t discarded_ = 0;
};

// Precise when the confidence interval of the median, by order statistics, is narrow enough.
class MedianPrecision : public StoppingCriterion {
 public:
  using StoppingCriterion::StoppingCriterion;

 private:
  void DoAddSample(double seconds) override { values_.push_back(seconds); }
  bool DoIsPrecise() override;

  std::vector<double> values_;
  size_t decided_at_ = 0;  // how many values the last decision saw
  bool precise_ = false;
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_STOPPING_H_
