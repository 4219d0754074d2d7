#include "suites/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "attention/flops.h"
#include "attention/mask.h"
#include "cp/executor.h"
#include "suites/support.h"

namespace lcab::suites {
namespace {

// Small for the slowest kernel, and not yet dominated by the cost of starting threads.
constexpr int64_t kTokens = 384;
constexpr int64_t kHeads = 4;
constexpr int kMostRuns = 20;
constexpr absl::Duration kEnough = absl::Milliseconds(50);
constexpr absl::Duration kDeadline = absl::Seconds(30);

std::optional<Problem> CalibrationProblem(const Problem& like) {
  const Slice causal{0, kTokens, 0, kTokens, SliceKind::kCausal};
  absl::StatusOr<Mask> mask = Mask::FromSlices(kTokens, kTokens, {&causal, 1});
  if (!mask.ok()) return std::nullopt;
  Problem problem = like;
  problem.q_heads = kHeads;
  problem.kv_heads = like.heads_per_kv() > 1 ? 1 : kHeads;
  problem.mask = std::make_shared<const Mask>(*std::move(mask));
  return problem;
}

// Runs both passes where `pass` is backward, which reads what forward wrote.
absl::StatusOr<absl::Duration> Run(cp::Executor& executor, Pass pass, Device& device) {
  const absl::Time start = absl::Now();
  if (absl::Status s = executor.Enqueue(pass); !s.ok()) return s;
  if (absl::Status s = device.stream().Synchronize(start + kDeadline); !s.ok()) return s;
  return absl::Now() - start;
}

// Zeros: attention over them takes the same steps, and no value can overflow.
absl::Status ZeroInputs(const cp::Executor& executor, Device& device) {
  for (const cp::Shard& shard : executor.inputs()) {
    const TensorView& view = shard.view;
    for (int64_t token = 0; token < view.tokens; ++token) {
      for (int64_t head = 0; head < view.heads; ++head) {
        absl::Status status =
            device.Fill(view.At(token, head), view.dim * SizeOf(view.dtype), 0, device.stream());
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> Measure(const Problem& problem, const Contender& contender,
                                       Device& device) {
  const absl::StatusOr<std::vector<cp::RankPlan>> plans =
      contender.strategy->MakePlans(PlanRequestOf(problem, contender));
  if (!plans.ok()) return plans.status();
  auto executor = cp::MakeExecutor(plans->front(), {.kernel = contender.kernel->builtin,
                                                    .kernel_options = contender.kernel_options,
                                                    .device = &device,
                                                    .step_timeout = kDeadline});
  if (!executor.ok()) return executor.status();
  if (absl::Status s = (*executor)->Prepare(); !s.ok()) return s;
  if (absl::Status s = (*executor)->Connect(); !s.ok()) return s;
  if (absl::Status s = ZeroInputs(**executor, device); !s.ok()) return s;
  // The first run is a warm-up, and gives the backward pass its LSE.
  absl::StatusOr<absl::Duration> first = Run(**executor, Pass::kForward, device);
  if (!first.ok()) return first;
  absl::Duration best = absl::InfiniteDuration();
  absl::Duration spent;
  for (int n = 0; n < kMostRuns && spent < kEnough; ++n) {
    absl::StatusOr<absl::Duration> one = Run(**executor, contender.pass, device);
    if (!one.ok()) return one;
    best = std::min(best, *one);
    spent += *one;
  }
  return best;
}

}  // namespace

Calibration::Calibration(int threads) {
  if (threads < 1) threads = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice({.threads = threads});
  if (device.ok()) device_ = *std::move(device);
}

std::optional<double> Calibration::FlopsPerSecond(const KernelEntry& kernel, const Options& options,
                                                  const Problem& problem, Pass pass) {
  if (device_ == nullptr || kernel.hidden || kernel.builtin == nullptr ||
      kernel.builtin->device_kind() != DeviceKind::kCpu) {
    return std::nullopt;
  }
  const std::optional<Problem> like = CalibrationProblem(problem);
  const cp::Strategy* single = cp::BuiltinStrategies().Find("single").value_or(nullptr);
  if (!like.has_value() || single == nullptr) return std::nullopt;
  const std::string key = fmt::format(
      "{} {} {}:{} {} {} {}", ComponentText(kernel.name, options), Name(pass), problem.qk_head_dim,
      problem.v_head_dim, Name(problem.dtype), problem.Softcap() != 0, problem.heads_per_kv() > 1);
  const auto [place, is_new] = rates_.emplace(key, std::nullopt);
  if (!is_new) return place->second;
  const absl::StatusOr<absl::Duration> time = Measure(
      *like, {.pass = pass, .kernel = &kernel, .kernel_options = options, .strategy = single},
      *device_);
  if (time.ok() && *time > absl::ZeroDuration()) {
    place->second = static_cast<double>(Flops(*like, pass)) / absl::ToDoubleSeconds(*time);
  }
  return place->second;
}

}  // namespace lcab::suites
