// Takes samples of a trial together with the other ranks, batch by batch.
//
// After a batch the ranks vote: each reports its durations, and rank 0 alone decides, from all of
// them, whether the trial goes on and what all ranks do next. So all do the same number of
// iterations, whatever their clocks say. The trials of a cohort take their batches in turn, in an
// order that is shuffled each round, so that they share clocks and weather.

#ifndef LCAB_MEASUREMENT_SAMPLER_H_
#define LCAB_MEASUREMENT_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "device/device.h"
#include "lcab/v1/trial.pb.h"
#include "lcab/v1/votes.pb.h"
#include "measurement/batch_planner.h"
#include "measurement/findings.h"
#include "measurement/votes.h"

namespace lcab::measurement {

// Below this share of the expected clock a sample is discarded.
inline constexpr double kLeastClockShare = 0.7;

// One trial on this rank, as the sampler sees it.
class Contestant {
 public:
  virtual ~Contestant() = default;

  // Fills the inputs with set number `inputs` (0 or 1) and does what must precede the timed pass.
  virtual absl::Status SetInputs(int inputs, absl::Time deadline) = 0;
  // One iteration, with all that precedes it: poison, cold caches, the ranks' barrier. Seconds of
  // one of `calls` calls that are timed together; 0, and a finding, when the timer gave no positive
  // time.
  virtual absl::StatusOr<double> RunIteration(int64_t calls, absl::Time deadline) = 0;
  // Looks at the output of iteration number `iteration`, outside any timed region.
  virtual absl::Status Examine(int64_t iteration, int inputs, absl::Time deadline) = 0;
  // Keeps selected rows of the current output, for the check of numbers.
  virtual absl::Status Keep(int slot, int inputs, absl::Time deadline) = 0;
  virtual absl::StatusOr<Conditions> ReadConditions() = 0;
  // This rank has failed: ends the others' waits for it.
  virtual void Abort(std::string_view reason) = 0;
  virtual Findings& findings() = 0;
  // Samples shorter than this, in seconds, are within the timer's own error; several calls are then
  // timed as one.
  virtual double shortest_sample_seconds() const = 0;
};

struct SamplerOptions {
  PlannerOptions plan;  // shortest_sample_seconds is the contestant's
  std::function<absl::Time()> now = absl::Now;
  std::function<void(absl::Duration)> pause;  // default: sleeps
  // By when what is started now must be over; asked anew for each batch.
  std::function<absl::Time()> deadline;
  // When this rank begins to wait for the others at a vote, and after a good verdict, when it works
  // again.
  std::function<void(bool waits)> on_vote;
  // Rank 0, about five times a second: samples so far and their median.
  std::function<void(int64_t samples, double median_seconds)> on_progress;
  // Test hook: what this rank claims to have spent, after so many timed iterations.
  std::function<absl::Duration(absl::Duration elapsed, int64_t timed_iterations)> claim_elapsed;
};

class Sampler {
 public:
  // `contestant` and `votes` must outlive it.
  Sampler(SamplerOptions options, Contestant& contestant, Votes& votes);

  // One batch and its vote: true when the trial has been sampled. The status is the verdict of all
  // ranks, the same on each.
  absl::StatusOr<bool> RunBatch();
  // The verdict that the last status was of.
  const Verdict& verdict() const { return verdict_; }

  // After the last batch: keeps rows of its output, so that a fault that only it has is seen too.
  // Concerns this rank alone.
  absl::Status KeepLast(absl::Time deadline);

  // After the last batch, on every rank.
  v1::StopReason stop_reason() const { return order_.stop(); }
  bool wrong() const { return order_.wrong(); }
  int64_t iterations() const { return iterations_; }
  // Rank 0.
  const BatchPlanner& planner() const { return planner_; }

 private:
  absl::Status RunIterations(absl::Time deadline, v1::BatchReport* report);
  absl::StatusOr<bool> Vote(const absl::Status& status, const v1::BatchReport& report,
                            absl::Time deadline);
  void TellProgress();

  SamplerOptions options_;
  Contestant& contestant_;
  Votes& votes_;
  BatchPlanner planner_;
  v1::BatchOrder order_;
  bool begun_ = false;
  int inputs_ = -1;
  int64_t iterations_ = 0;
  int64_t timed_ = 0;
  absl::Duration elapsed_;
  absl::Time told_progress_ = absl::InfinitePast();
  Verdict verdict_;
};

// The order in which round number `round` visits `count` trials: the same on every rank.
std::vector<size_t> RoundOrder(size_t count, uint64_t seed, int64_t round);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_SAMPLER_H_
