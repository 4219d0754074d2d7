#include "measurement/probe.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "measurement/probe_pattern.h"
#include "measurement/shards.h"

namespace lcab::measurement {
namespace {

// The channel that is furthest off, in units of what is allowed.
struct Worst {
  double ratio = 0;
  size_t channel = 0;
};

Worst WorstChannel(const ProbeExpectation::Row& expected, std::span<const float> actual) {
  Worst worst;
  for (size_t c = 0; c < actual.size(); ++c) {
    const double value = static_cast<double>(actual[c]) / expected.unit;
    const double wanted = expected.values[c];
    double ratio = 0;
    if (value != wanted) {  // also where both are -inf
      const double allowed = expected.absolute + expected.relative * std::abs(wanted);
      ratio = std::abs(value - wanted) / allowed;  // inf where nothing is allowed
      if (std::isnan(ratio)) ratio = kBeyondMeasure;
    }
    if (ratio > worst.ratio) worst = {ratio, c};
  }
  return worst;
}

v1::Finding Describe(Tensor tensor, int64_t token, int64_t head,
                     const ProbeExpectation::Row& expected, std::span<const float> actual,
                     size_t channel) {
  v1::Finding finding;
  finding.set_tensor(std::string(Name(tensor)));
  finding.set_head(head);
  finding.set_token(token);
  finding.set_expected(expected.values[channel] * expected.unit);
  finding.set_actual(actual[channel]);
  finding.set_message(fmt::format("channel {} is {:.6g}, the mask's closed form gives {:.6g}{}",
                                  channel, actual[channel],
                                  expected.values[channel] * expected.unit,
                                  IsPoison(actual[channel]) ? " (it was never written)" : ""));
  return finding;
}

// The heads of `tensor` that belong to a kv head.
Interval HeadsOf(const Problem& problem, Tensor tensor, int64_t kv_head) {
  if (tensor == Tensor::kDK || tensor == Tensor::kDV) return {kv_head, kv_head + 1};
  return {kv_head * problem.heads_per_kv(), (kv_head + 1) * problem.heads_per_kv()};
}

absl::Status CheckOutputs(const Problem& problem, const ProbeRun& run, cp::Executor& executor,
                          Device& device, absl::Time deadline, Findings* findings) {
  const auto threads = static_cast<size_t>(PartThreads(device));
  for (int64_t kv_head = 0; kv_head < problem.kv_heads; ++kv_head) {
    const ProbeExpectation expectation(
        problem, run, kv_head, [&](int64_t parts, const std::function<void(int64_t)>& body) {
          RunParts(device, parts, [&](int64_t part, int) { body(part); });
        });
    std::vector<ProbeExpectation::Scratch> scratches(threads);
    std::vector<ProbeExpectation::Row> rows(threads);
    for (const cp::Shard& shard : executor.outputs(run.pass)) {
      absl::Status status = VisitRows(
          shard, HeadsOf(problem, shard.tensor, kv_head),
          [&](int64_t token, int64_t head, std::span<const float> actual, int thread) {
            ProbeExpectation::Row& expected = rows[static_cast<size_t>(thread)];
            expectation.Expect(shard.tensor, token, head, scratches[static_cast<size_t>(thread)],
                               &expected);
            const Worst worst = WorstChannel(expected, actual);
            findings->Check(Part::kProbe, worst.ratio, [&] {
              return Describe(shard.tensor, token, head, expected, actual, worst.channel);
            });
          },
          device, deadline);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// Rows of out and dQ, keys of dK: of one run, for a run sees them all.
void Count(const std::vector<cp::Shard>& outputs, Findings* findings) {
  for (const cp::Shard& shard : outputs) {
    const int64_t count = shard.tokens.count() * shard.heads.size();
    if (shard.tensor == Tensor::kOut || shard.tensor == Tensor::kDQ) findings->CountRows(count);
    if (shard.tensor == Tensor::kDK) findings->CountKeys(count);
  }
}

}  // namespace

absl::Status Probe(const Problem& problem, Pass pass, cp::Executor& executor, Device& device,
                   absl::Time deadline, Findings* findings) {
  for (const ProbeRun& run : ProbeRuns(problem, pass)) {
    const ProbeInputs inputs(problem, run);
    absl::Status status = WriteShards(
        executor.inputs(),
        [&](Tensor tensor, int64_t token, int64_t head, std::span<float> row) {
          inputs.Row(tensor, token, head, row);
        },
        device, deadline);
    if (!status.ok()) return status;
    // The backward pass needs what the forward pass saves.
    for (const Pass step : {Pass::kForward, Pass::kBackward}) {
      if (step == Pass::kBackward && pass == Pass::kForward) break;
      status = Poison(executor.outputs(step), device);
      if (status.ok()) status = executor.Enqueue(step);
      if (status.ok()) status = device.stream().Synchronize(deadline);
      if (!status.ok()) return status;
    }
    status = CheckOutputs(problem, run, executor, device, deadline, findings);
    if (!status.ok()) return status;
  }
  Count(executor.outputs(pass), findings);
  return absl::OkStatus();
}

}  // namespace lcab::measurement
