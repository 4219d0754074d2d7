// Rank 0's part of sampling a trial: from all ranks' reports of a batch it decides what all do
// next. Pure but for its callbacks: no clock, no device.

#ifndef LCAB_MEASUREMENT_BATCH_PLANNER_H_
#define LCAB_MEASUREMENT_BATCH_PLANNER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/philox.h"
#include "lcab/v1/trial.pb.h"
#include "lcab/v1/votes.pb.h"
#include "measurement/stopping.h"

namespace lcab::measurement {

// Batches last about this long: votes stay cheap when iterations are short, and a decision acts
// after one iteration when they are not.
inline constexpr absl::Duration kBatchTime = absl::Milliseconds(10);
inline constexpr int64_t kMostIterationsOfBatch = 256;
// Raw samples are handed on in pieces of at most this many durations, well below a megabyte.
inline constexpr int64_t kMostSecondsOfChunk = 65'536;

// Marks of iterations, as in v1::SampleChunk.
enum SampleMark : int32_t { kKept = 0, kThrottled = 1, kWarmup = 2, kNoTime = 3 };

// Slots of kept rows: an iteration drawn among those on the first inputs, one among those on the
// changed inputs, and the last.
inline constexpr int kFirstInputsSlot = 0;
inline constexpr int kChangedInputsSlot = 1;
inline constexpr int kLastSlot = 2;
inline constexpr int kSlots = 3;

struct PlannerOptions {
  StoppingLimits limits;
  int64_t warmup = 0;  // at least one iteration precedes those that count, to size batches by
  bool verify_only = false;
  uint64_t secret = 0;  // draws the iterations that change inputs and keep rows
  double shortest_sample_seconds = 0;
  std::function<void(v1::SampleChunk)> on_samples;
};

class BatchPlanner {
 public:
  explicit BatchPlanner(PlannerOptions options);

  v1::BatchOrder First();
  // What follows the batch that was ordered last, from the reports of all ranks in their order.
  // Internal when they do not fit the order. An order without iterations ends the trial.
  absl::StatusOr<v1::BatchOrder> Next(std::span<const v1::BatchReport> reports);

  // Maximum over ranks of each kept sample, in order.
  const std::vector<double>& kept_seconds() const { return kept_seconds_; }
  int64_t discarded() const { return criterion_.discarded(); }
  int64_t iterations() const { return iterations_; }
  int64_t calls() const { return order_.calls(); }
  const std::string& throttle_reasons() const { return throttle_reasons_; }

 private:
  absl::Status Record(std::span<const v1::BatchReport> reports);
  v1::BatchOrder Stop(v1::StopReason reason, bool wrong);
  v1::BatchOrder Continue();
  v1::BatchOrder Order(int64_t iterations, bool warmup);
  void DrawChanges(v1::BatchOrder* order);
  void DrawKeeps(v1::BatchOrder* order);
  void FlushChunk();
  // So that the durations of all ranks fit a piece.
  int64_t MostIterationsOfBatch() const;
  double DrawShare() { return random_.Next32() * 0x1p-32; }

  const PlannerOptions options_;
  MedianPrecision criterion_;
  PhiloxStream random_;
  v1::BatchOrder order_;  // the last one given
  std::vector<double> kept_seconds_;
  v1::SampleChunk chunk_;
  std::string throttle_reasons_;
  int64_t ranks_ = 1;
  int64_t iterations_ = 0;
  int64_t timed_ = 0;
  int64_t warmup_left_;
  int64_t first_change_;  // the timed iteration before which inputs change
  int inputs_ = 0;        // after the last order
  bool changed_ = false;
  int64_t on_inputs_[2] = {0, 0};  // timed iterations ordered on either inputs
  double iteration_seconds_ = 0;   // with all that surrounds it; slowest rank
  double elapsed_seconds_ = 0;
  double shortest_seconds_ = 0;  // of one call, among warm-up iterations
  double pause_seconds_ = 0;
  std::optional<v1::StopReason> closing_reason_;  // stops after one more, unmeasured iteration
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_BATCH_PLANNER_H_
