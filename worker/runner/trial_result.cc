#include "worker/runner/trial_result.h"

#include <algorithm>
#include <string>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "measurement/findings.h"
#include "measurement/statistics.h"
#include "proto/proto_time.h"

namespace lcab::runner {

v1::Statistics MakeStatistics(const std::vector<double>& kept_seconds, int64_t discarded,
                              int64_t calls_per_sample, double confidence) {
  v1::Statistics statistics;
  statistics.set_samples(static_cast<int64_t>(kept_seconds.size()));
  statistics.set_discarded(discarded);
  statistics.set_iterations_per_sample(calls_per_sample);
  if (kept_seconds.empty()) return statistics;
  const std::vector<double> sorted = measurement::Sorted(kept_seconds);
  const measurement::MedianInterval interval = measurement::IntervalOfMedian(sorted, confidence);
  statistics.set_median_seconds(interval.median);
  statistics.set_low_seconds(interval.low);
  statistics.set_high_seconds(interval.high);
  statistics.set_confidence(interval.confidence);
  statistics.set_minimum_seconds(sorted.front());
  statistics.set_maximum_seconds(sorted.back());
  statistics.set_quantile20_seconds(measurement::Quantile(sorted, 0.2));
  statistics.set_quantile80_seconds(measurement::Quantile(sorted, 0.8));
  return statistics;
}

void FillResult(const v1::TrialSpec& spec, std::span<const v1::RankReport> reports,
                std::span<const cp::RankFacts> facts, const measurement::BatchPlanner& sampled,
                v1::StopReason stop_reason, v1::TrialResult* result) {
  std::vector<v1::Verification> verifications;
  int64_t bytes_sent = 0, peak_bytes = 0;
  double prepare_seconds = 0;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    verifications.push_back(reports[rank].verification());
    v1::RankResult& of_rank = *result->add_ranks();
    of_rank = reports[rank].result();
    of_rank.set_area(facts[rank].area);
    bytes_sent += of_rank.bytes_sent();
    peak_bytes = std::max(
        peak_bytes, of_rank.plan_bytes() + of_rank.workspace_bytes() + of_rank.schedule_bytes());
    prepare_seconds = std::max(prepare_seconds, of_rank.prepare_seconds());
  }
  result->set_bytes_sent(bytes_sent);
  result->set_peak_bytes(peak_bytes);
  result->set_prepare_seconds(prepare_seconds);
  result->set_stop_reason(stop_reason);
  *result->mutable_verification() = measurement::Merge(verifications);

  const v1::Verification& verification = result->verification();
  const std::vector<double>& kept = sampled.kept_seconds();
  if (!measurement::IsOk(verification)) {
    const v1::Finding& worst = verification.findings(0);
    result->set_outcome(v1::OUTCOME_WRONG_RESULT);
    result->set_fault(v1::FAULT_KERNEL);
    result->set_rank(worst.rank());
    result->set_reason(reports.size() > 1
                           ? fmt::format("rank {}: {}", worst.rank(), measurement::Describe(worst))
                           : measurement::Describe(worst));
    result->set_stop_reason(v1::STOP_REASON_UNSPECIFIED);
    return;
  }
  *result->mutable_statistics() =
      MakeStatistics(kept, sampled.discarded(), sampled.calls(), spec.measure().confidence());
  if (stop_reason == v1::STOP_REASON_ALL_THROTTLED) {
    result->set_outcome(v1::OUTCOME_TIMED_OUT);
    result->set_fault(v1::FAULT_LIMIT);
    result->set_reason(fmt::format(
        "all {} samples within {} were discarded, because the device was throttled ({}); let it "
        "cool, or raise max_time",
        sampled.discarded(), absl::FormatDuration(FromProto(spec.measure().max_time())),
        sampled.throttle_reasons()));
    return;
  }
  result->set_outcome(v1::OUTCOME_OK);
}

}  // namespace lcab::runner
