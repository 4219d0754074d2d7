#include "suites/estimate.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "attention/flops.h"
#include "cp/executor.h"
#include "proto/proto_time.h"
#include "suites/conversion.h"
#include "suites/support.h"

namespace lcab::suites {
namespace {

// Plans of all ranks are in memory at once.
constexpr int kMostRanks = 128;
constexpr double kCheckIterations = 20;
constexpr absl::Duration kCheckTime = absl::Seconds(1);

absl::StatusOr<Contender> ContenderOf(const v1::TrialSpec& trial, const Catalogue& catalogue) {
  Contender contender;
  contender.kernel = catalogue.FindKernel(trial.kernel().name());
  contender.strategy = catalogue.FindStrategy(trial.strategy().name());
  if (contender.kernel == nullptr || contender.strategy == nullptr) {
    return absl::NotFoundError("the trial names a kernel or strategy that is not known here");
  }
  absl::StatusOr<Options> kernel_options = OptionsOf(trial.kernel());
  if (!kernel_options.ok()) return kernel_options.status();
  contender.kernel_options = *std::move(kernel_options);
  absl::StatusOr<Options> strategy_options = OptionsOf(trial.strategy());
  if (!strategy_options.ok()) return strategy_options.status();
  contender.strategy_options = *std::move(strategy_options);
  absl::StatusOr<Pass> pass = FromProto(trial.pass());
  if (!pass.ok()) return pass.status();
  contender.pass = *pass;
  contender.ranks = trial.ranks();
  contender.ranks_per_device = std::max(trial.ranks_per_device(), 1);
  contender.overlap = trial.overlap();
  return contender;
}

std::optional<int64_t> PeakBytes(const cp::PlanRequest& request, const Contender& contender,
                                 Device* device) {
  if (contender.kernel->builtin == nullptr || device == nullptr ||
      contender.kernel->builtin->device_kind() != device->info().kind ||
      contender.ranks > kMostRanks) {
    return std::nullopt;
  }
  const absl::StatusOr<std::vector<cp::RankPlan>> plans = contender.strategy->MakePlans(request);
  if (!plans.ok()) return std::nullopt;
  int64_t peak = 0;
  for (const cp::RankPlan& plan : *plans) {
    const absl::StatusOr<cp::MemoryNeed> need =
        cp::GetMemoryNeed(plan, {.kernel = contender.kernel->builtin,
                                 .kernel_options = contender.kernel_options,
                                 .device = device});
    if (!need.ok()) return std::nullopt;
    peak = std::max(peak, need->total());
  }
  return peak;
}

absl::Duration WholeTrial(const v1::Measure& measure, absl::Duration iteration) {
  const absl::Duration checks = kCheckTime + iteration * kCheckIterations;
  if (measure.mode() == v1::MEASURE_MODE_VERIFY) return checks;
  const absl::Duration most = std::min(lcab::FromProto(measure.max_time()),
                                       iteration * static_cast<double>(measure.max_samples()));
  return checks + iteration * static_cast<double>(measure.warmup()) + std::max(most, iteration);
}

}  // namespace

absl::StatusOr<Estimate> EstimateTrial(const v1::TrialSpec& trial, const Catalogue& catalogue,
                                       Calibration& calibration) {
  const absl::StatusOr<Problem> problem = MakeProblem(trial.problem());
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Contender> contender = ContenderOf(trial, catalogue);
  if (!contender.ok()) return contender.status();
  Estimate estimate{.area = TotalArea(*problem), .flops = Flops(*problem, contender->pass)};
  if (!trial.unsupported_reason().empty()) return estimate;

  const cp::PlanRequest request = PlanRequestOf(*problem, *contender);
  int64_t bytes_sent = 0;
  for (int rank = 0; rank < contender->ranks; ++rank) {
    bytes_sent += contender->strategy->BytesSent(request, rank, contender->pass);
  }
  estimate.bytes_sent = bytes_sent;
  estimate.peak_bytes = PeakBytes(request, *contender, calibration.device());
  const std::optional<double> rate = calibration.FlopsPerSecond(
      *contender->kernel, contender->kernel_options, *problem, contender->pass);
  if (rate.has_value()) {
    estimate.iteration = absl::Seconds(static_cast<double>(estimate.flops) / *rate);
    estimate.whole = WholeTrial(trial.measure(), *estimate.iteration);
  }
  return estimate;
}

}  // namespace lcab::suites
