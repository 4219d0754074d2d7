#include "measurement/sampler.h"

#include <fmt/format.h>

#include <numeric>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "attention/philox.h"
#include "measurement/exceptions.h"
#include "measurement/statistics.h"

namespace lcab::measurement {
namespace {

constexpr uint32_t kRoundPurpose = 0x524f554e;
constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);

SamplerOptions WithDefaults(SamplerOptions options, const Contestant& contestant) {
  options.plan.shortest_sample_seconds = contestant.shortest_sample_seconds();
  if (options.pause == nullptr) {
    options.pause = [](absl::Duration pause) {
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(pause));
    };
  }
  if (options.deadline == nullptr) options.deadline = [] { return absl::InfiniteFuture(); };
  return options;
}

bool IsThrottled(const Conditions& conditions) {
  const bool slow = conditions.clock_hz > 0 && conditions.expected_clock_hz > 0 &&
                    conditions.clock_hz < kLeastClockShare * conditions.expected_clock_hz;
  return conditions.throttled || slow;
}

std::string ReasonsOf(const Conditions& conditions) {
  if (!conditions.reasons.empty()) return conditions.reasons;
  return fmt::format("clock at {:.0f} of {:.0f} MHz", conditions.clock_hz / 1e6,
                     conditions.expected_clock_hz / 1e6);
}

}  // namespace

Sampler::Sampler(SamplerOptions options, Contestant& contestant, Votes& votes)
    : options_(WithDefaults(std::move(options), contestant)),
      contestant_(contestant),
      votes_(votes),
      planner_(options_.plan) {}

absl::Status Sampler::RunIterations(absl::Time deadline, v1::BatchReport* report) {
  if (order_.pause_seconds() > 0) options_.pause(absl::Seconds(order_.pause_seconds()));
  for (int i = 0; i < order_.iterations(); ++i) {
    int inputs = inputs_ < 0 ? 0 : inputs_;
    for (const auto& change : order_.changes()) {
      if (change.iteration() == i) inputs = change.inputs();
    }
    if (inputs != inputs_) {
      if (absl::Status s = contestant_.SetInputs(inputs, deadline); !s.ok()) return s;
      inputs_ = inputs;
    }
    const absl::StatusOr<double> seconds = contestant_.RunIteration(order_.calls(), deadline);
    if (!seconds.ok()) return seconds.status();
    report->add_seconds(*seconds);

    const absl::StatusOr<Conditions> conditions = contestant_.ReadConditions();
    if (!conditions.ok()) return conditions.status();
    const bool throttled = IsThrottled(*conditions);
    report->add_throttled(throttled ? 1 : 0);
    if (throttled) report->set_throttle_reasons(ReasonsOf(*conditions));

    if (absl::Status s = contestant_.Examine(iterations_, inputs_, deadline); !s.ok()) return s;
    for (const auto& keep : order_.keeps()) {
      if (keep.iteration() != i) continue;
      if (absl::Status s = contestant_.Keep(keep.slot(), inputs_, deadline); !s.ok()) return s;
    }
    ++iterations_;
    if (!order_.warmup()) ++timed_;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Sampler::Vote(const absl::Status& status, const v1::BatchReport& report,
                                   absl::Time deadline) {
  const bool begins = !begun_;
  begun_ = true;
  if (options_.on_vote != nullptr) options_.on_vote(/*waits=*/true);
  verdict_ = votes_.Hold(
      begins ? "begin" : "batch", status, report.SerializeAsString(), deadline,
      [&](std::span<const std::string> contents) -> absl::StatusOr<std::string> {
        if (begins) return planner_.First().SerializeAsString();
        std::vector<v1::BatchReport> reports(contents.size());
        for (size_t rank = 0; rank < contents.size(); ++rank) {
          if (!reports[rank].ParseFromString(contents[rank])) {
            return absl::InternalError(fmt::format("rank {}'s report cannot be read", rank));
          }
        }
        absl::StatusOr<v1::BatchOrder> order = planner_.Next(reports);
        if (!order.ok()) return order.status();
        return order->SerializeAsString();
      });
  if (!verdict_.status.ok()) return verdict_.status;
  if (options_.on_vote != nullptr) options_.on_vote(/*waits=*/false);
  if (!order_.ParseFromString(verdict_.content)) {
    return absl::InternalError("rank 0's order for the next batch cannot be read");
  }
  return order_.iterations() == 0;
}

absl::StatusOr<bool> Sampler::RunBatch() {
  const absl::Time deadline = options_.deadline();
  if (!begun_) {
    if (absl::StatusOr<bool> done = Vote(absl::OkStatus(), {}, deadline); !done.ok()) return done;
  }
  const absl::Time start = options_.now();
  v1::BatchReport report;
  const absl::Status status = CatchExceptions([&] { return RunIterations(deadline, &report); });
  // The others must not wait for this rank in a barrier or an exchange.
  if (!status.ok()) contestant_.Abort(std::string(status.message()));
  const absl::Duration took = options_.now() - start;
  elapsed_ += took;
  report.set_batch_seconds(absl::ToDoubleSeconds(took));
  const absl::Duration claimed =
      options_.claim_elapsed != nullptr ? options_.claim_elapsed(elapsed_, timed_) : elapsed_;
  report.set_elapsed_seconds(absl::ToDoubleSeconds(claimed));
  for (v1::Finding& finding : contestant_.findings().Wrong(Part::kHonesty)) {
    *report.add_findings() = std::move(finding);
  }
  absl::StatusOr<bool> done = Vote(status, report, deadline);
  if (!done.ok()) return done;
  if (votes_.rank() == 0) TellProgress();
  return done;
}

absl::Status Sampler::KeepLast(absl::Time deadline) {
  return inputs_ < 0 ? absl::OkStatus() : contestant_.Keep(kLastSlot, inputs_, deadline);
}

void Sampler::TellProgress() {
  const absl::Time now = options_.now();
  if (options_.on_progress == nullptr || now - told_progress_ < kProgressInterval) return;
  told_progress_ = now;
  const std::vector<double>& seconds = planner_.kept_seconds();
  options_.on_progress(static_cast<int64_t>(seconds.size()),
                       seconds.empty() ? 0 : Median(Sorted(seconds)));
}

std::vector<size_t> RoundOrder(size_t count, uint64_t seed, int64_t round) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  PhiloxStream random(seed, kRoundPurpose, static_cast<uint32_t>(round));
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

}  // namespace lcab::measurement
