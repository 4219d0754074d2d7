#include "measurement/batch_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lcab::measurement {
namespace {

constexpr uint32_t kPurpose = 0x504c414e;
constexpr int64_t kMostCalls = 10'000;
constexpr double kFirstPause = 0.01, kLongestPause = 1;  // seconds
// Of a later batch: that inputs change in it once more.
constexpr double kChangeShare = 0.125;

v1::StopReason ToProto(StopReason reason) {
  switch (reason) {
    case StopReason::kPrecision:
      return v1::STOP_REASON_PRECISION;
    case StopReason::kMaxTime:
      return v1::STOP_REASON_MAX_TIME;
    case StopReason::kMaxSamples:
      return v1::STOP_REASON_MAX_SAMPLES;
    case StopReason::kAllThrottled:
      return v1::STOP_REASON_ALL_THROTTLED;
  }
  return v1::STOP_REASON_UNSPECIFIED;
}

}  // namespace

BatchPlanner::BatchPlanner(PlannerOptions options)
    : options_(std::move(options)),
      criterion_(options_.limits),
      random_(options_.secret, kPurpose),
      warmup_left_(std::max<int64_t>(1, options_.warmup)) {
  // Early enough to happen in a trial that stops at its minimum.
  const auto choices = static_cast<uint64_t>(std::max<int64_t>(1, options_.limits.min_samples - 1));
  first_change_ = 1 + static_cast<int64_t>(random_.Below(choices));
  order_.set_calls(1);
}

v1::BatchOrder BatchPlanner::First() {
  if (options_.verify_only) {
    // One on the first inputs, two on the changed ones: enough for every check.
    order_ = Order(3, /*warmup=*/true);
    auto* change = order_.add_changes();
    change->set_iteration(1);
    change->set_inputs(1);
    changed_ = true;
    for (const auto& [iteration, slot] :
         {std::pair{0, kFirstInputsSlot}, std::pair{1, kChangedInputsSlot}}) {
      auto* keep = order_.add_keeps();
      keep->set_iteration(iteration);
      keep->set_slot(slot);
    }
    closing_reason_ = v1::STOP_REASON_VERIFY_ONLY;
    return order_;
  }
  // How long an iteration takes is not known yet.
  return order_ = Order(1, /*warmup=*/true);
}

absl::Status BatchPlanner::Record(std::span<const v1::BatchReport> reports) {
  double batch_seconds = 0;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const v1::BatchReport& report = reports[rank];
    if (report.seconds_size() != order_.iterations() ||
        report.throttled_size() != order_.iterations()) {
      return absl::InternalError(fmt::format("rank {} reports {} iterations of a batch of {}", rank,
                                             report.seconds_size(), order_.iterations()));
    }
    batch_seconds = std::max(batch_seconds, report.batch_seconds());
    // The slowest clock counts: whichever rank thinks that the time is up, it is up for all.
    elapsed_seconds_ = std::max(elapsed_seconds_, report.elapsed_seconds());
    if (!report.throttle_reasons().empty()) throttle_reasons_ = report.throttle_reasons();
  }
  iteration_seconds_ = batch_seconds / static_cast<double>(order_.iterations());

  bool all_throttled = true;
  for (int i = 0; i < order_.iterations(); ++i) {
    double slowest = 0, fastest = HUGE_VAL;
    bool throttled = false;
    for (const v1::BatchReport& report : reports) {
      slowest = std::max(slowest, report.seconds(i));
      fastest = std::min(fastest, report.seconds(i));
      throttled = throttled || report.throttled(i) != 0;
      chunk_.add_seconds(report.seconds(i));
    }
    SampleMark mark = kKept;
    if (fastest <= 0) {
      mark = kNoTime;
    } else if (order_.warmup()) {
      mark = kWarmup;
      if (shortest_seconds_ == 0 || slowest < shortest_seconds_) shortest_seconds_ = slowest;
    } else if (throttled) {
      mark = kThrottled;
      criterion_.AddDiscarded();
    } else {
      criterion_.AddSample(slowest);
      kept_seconds_.push_back(slowest);
    }
    all_throttled = all_throttled && mark == kThrottled;
    chunk_.add_marks(mark);
  }
  ranks_ = static_cast<int64_t>(reports.size());
  chunk_.set_ranks(static_cast<int32_t>(ranks_));
  iterations_ += order_.iterations();
  if (order_.warmup()) {
    warmup_left_ -= order_.iterations();
  } else {
    timed_ += order_.iterations();
  }
  pause_seconds_ = all_throttled ? std::clamp(2 * pause_seconds_, kFirstPause, kLongestPause) : 0;
  if (chunk_.seconds_size() >= kMostSecondsOfChunk - MostIterationsOfBatch() * ranks_) {
    FlushChunk();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::BatchOrder> BatchPlanner::Next(std::span<const v1::BatchReport> reports) {
  if (absl::Status status = Record(reports); !status.ok()) return status;
  const bool wrong = std::any_of(reports.begin(), reports.end(), [](const v1::BatchReport& report) {
    return report.findings_size() > 0;
  });
  if (wrong) return Stop(v1::STOP_REASON_UNSPECIFIED, /*wrong=*/true);
  if (closing_reason_.has_value()) return Stop(*closing_reason_, /*wrong=*/false);
  if (order_.warmup() && warmup_left_ > 0 &&
      elapsed_seconds_ >= absl::ToDoubleSeconds(options_.limits.max_time)) {
    warmup_left_ = 0;  // iterations are so long that warming up would take longer than measuring
  }
  const std::optional<StopReason> reason = criterion_.Decide(absl::Seconds(elapsed_seconds_));
  if (!reason.has_value()) return Continue();
  if (changed_) return Stop(ToProto(*reason), /*wrong=*/false);
  // It stopped before its inputs ever changed: once more, unmeasured, on others.
  closing_reason_ = ToProto(*reason);
  order_ = Order(1, /*warmup=*/true);
  auto* change = order_.add_changes();
  change->set_iteration(0);
  change->set_inputs(1);
  auto* keep = order_.add_keeps();
  keep->set_iteration(0);
  keep->set_slot(kChangedInputsSlot);
  return order_;
}

v1::BatchOrder BatchPlanner::Stop(v1::StopReason reason, bool wrong) {
  FlushChunk();
  v1::BatchOrder stop;
  stop.set_stop(reason);
  stop.set_wrong(wrong);
  stop.set_calls(order_.calls());
  return order_ = stop;
}

v1::BatchOrder BatchPlanner::Order(int64_t iterations, bool warmup) {
  v1::BatchOrder order;
  order.set_iterations(iterations);
  order.set_calls(order_.calls());
  order.set_warmup(warmup);
  order.set_pause_seconds(pause_seconds_);
  return order;
}

int64_t BatchPlanner::MostIterationsOfBatch() const {
  return std::clamp<int64_t>(kMostSecondsOfChunk / ranks_, 1, kMostIterationsOfBatch);
}

v1::BatchOrder BatchPlanner::Continue() {
  int64_t iterations = MostIterationsOfBatch();
  if (iteration_seconds_ > 0) {
    const double fitting = absl::ToDoubleSeconds(kBatchTime) / iteration_seconds_;
    iterations = static_cast<int64_t>(std::clamp(fitting, 1.0, static_cast<double>(iterations)));
  }
  if (warmup_left_ > 0) return order_ = Order(std::min(iterations, warmup_left_), true);
  if (timed_ == 0 && shortest_seconds_ > 0 &&
      shortest_seconds_ < options_.shortest_sample_seconds) {
    order_.set_calls(std::min(
        kMostCalls,
        static_cast<int64_t>(std::ceil(options_.shortest_sample_seconds / shortest_seconds_))));
  }
  iterations = std::min(iterations, options_.limits.max_samples - timed_);
  v1::BatchOrder order = Order(iterations, /*warmup=*/false);
  DrawChanges(&order);
  DrawKeeps(&order);
  return order_ = order;
}

void BatchPlanner::DrawChanges(v1::BatchOrder* order) {
  int64_t at = -1;
  if (!changed_) {
    at = first_change_ - timed_;
  } else if (DrawShare() < kChangeShare) {
    at = static_cast<int64_t>(random_.Below(static_cast<uint64_t>(order->iterations())));
  }
  if (at < 0 || at >= order->iterations()) return;
  changed_ = true;
  auto* change = order->add_changes();
  change->set_iteration(at);
  change->set_inputs(1 - inputs_);
}

void BatchPlanner::DrawKeeps(v1::BatchOrder* order) {
  // Each iteration on the same inputs is equally likely to be the one that is kept at the end.
  int kept_at[2] = {-1, -1};
  for (int i = 0; i < order->iterations(); ++i) {
    for (const auto& change : order->changes()) {
      if (change.iteration() == i) inputs_ = change.inputs();
    }
    const int64_t seen = ++on_inputs_[inputs_];
    if (random_.Below(static_cast<uint64_t>(seen)) == 0) kept_at[inputs_] = i;
  }
  for (const int inputs : {0, 1}) {
    if (kept_at[inputs] < 0) continue;
    auto* keep = order->add_keeps();
    keep->set_iteration(kept_at[inputs]);
    keep->set_slot(inputs == 0 ? kFirstInputsSlot : kChangedInputsSlot);
  }
}

void BatchPlanner::FlushChunk() {
  if (chunk_.marks_size() == 0) return;
  const int64_t next = chunk_.first() + chunk_.marks_size();
  if (options_.on_samples != nullptr) options_.on_samples(std::move(chunk_));
  chunk_ = v1::SampleChunk();
  chunk_.set_first(next);
}

}  // namespace lcab::measurement
