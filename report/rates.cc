#include "report/rates.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lcab::report {

std::optional<double> Tflops(const v1::Trial& trial) {
  const v1::TrialResult& result = trial.result();
  const v1::Statistics& statistics = result.statistics();
  if (trial.state() != v1::TRIAL_STATE_DONE || result.outcome() != v1::OUTCOME_OK) return {};
  // Whatever a record holds, nothing infinite comes out.
  const double seconds = statistics.median_seconds();
  // Nor is there a rate where a mask leaves nothing to do.
  if (result.flops() <= 0 || statistics.samples() <= 0 || !std::isfinite(seconds) || seconds <= 0)
    return {};
  const double rate = static_cast<double>(result.flops()) / seconds / 1e12;
  return std::isfinite(rate) ? std::optional(rate) : std::nullopt;
}

std::optional<double> TflopsPerDevice(const v1::Trial& trial) {
  const std::optional<double> rate = Tflops(trial);
  if (!rate.has_value()) return {};
  const int per_device = std::max(trial.spec().ranks_per_device(), 1);
  const int devices = std::max((trial.spec().ranks() + per_device - 1) / per_device, 1);
  return *rate / devices;
}

}  // namespace lcab::report
