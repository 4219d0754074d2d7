#include "measurement/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "measurement/shards.h"

namespace lcab::measurement {
namespace {

struct RowError {
  double norm = 0;     // L2
  size_t channel = 0;  // the worst
};

RowError ErrorOf(const std::vector<float>& actual, const std::vector<double>& exact) {
  RowError error;
  double sum = 0, worst = 0;
  for (size_t c = 0; c < exact.size(); ++c) {
    const double value = actual[c];
    if (value == exact[c]) continue;  // also where both are -inf
    const double difference = std::abs(value - exact[c]);
    // NaN must not pass as small.
    if (!(difference <= worst)) {
      worst = std::isnan(difference) ? HUGE_VAL : difference;
      error.channel = c;
    }
    sum += worst == HUGE_VAL ? HUGE_VAL : difference * difference;
  }
  error.norm = std::sqrt(sum);
  return error;
}

}  // namespace

absl::StatusOr<KeptRows> KeptRows::Copy(std::span<const cp::Shard> outputs,
                                        const RowSelection& selection, Device& device,
                                        absl::Time deadline) {
  KeptRows kept;
  for (const cp::Shard& shard : outputs) {
    const bool by_key = shard.tensor == Tensor::kDK || shard.tensor == Tensor::kDV;
    const auto& tokens_of_head = by_key ? selection.keys : selection.rows;
    for (int64_t head = shard.heads.begin; head < shard.heads.end; ++head) {
      if (static_cast<size_t>(head) >= tokens_of_head.size()) break;
      for (const int64_t token : tokens_of_head[static_cast<size_t>(head)]) {
        absl::StatusOr<std::vector<float>> row = ReadRow(shard, token, head, device, deadline);
        if (!row.ok()) return row.status();
        if (!row->empty()) kept.rows_[{shard.tensor, head, token}] = *std::move(row);
      }
    }
  }
  return kept;
}

const std::vector<float>* KeptRows::Find(Tensor tensor, int64_t head, int64_t token) const {
  const auto found = rows_.find({tensor, head, token});
  return found == rows_.end() ? nullptr : &found->second;
}

int64_t CompareRows(const KeptRows& kept, std::span<const TruthRow> truth, Findings* findings) {
  int64_t compared = 0;
  for (const TruthRow& row : truth) {
    const std::vector<float>* actual = kept.Find(row.tensor, row.head, row.token);
    if (actual == nullptr) continue;
    ++compared;
    const RowError error = ErrorOf(*actual, row.values);
    const double ratio = error.norm == 0 ? 0 : error.norm / row.allowed;
    const double relative = error.norm == 0 ? 0 : error.norm / row.scale;
    // An LSE's error is an absolute one.
    findings->NoteError(row.tensor == Tensor::kLse ? 0 : relative, ratio);
    findings->Check(Part::kNumbers, ratio, [&] {
      v1::Finding finding;
      finding.set_tensor(std::string(Name(row.tensor)));
      finding.set_head(row.head);
      finding.set_token(row.token);
      finding.set_expected(row.values[error.channel]);
      finding.set_actual((*actual)[error.channel]);
      finding.set_message(
          fmt::format("error {:.3g} of the row, {:.3g} allowed, with {} inputs; channel {} is "
                      "{:.6g}, fp64 gives "
                      "{:.6g}{}",
                      relative, row.scale > 0 ? row.allowed / row.scale : 0, Name(row.distribution),
                      error.channel, (*actual)[error.channel], row.values[error.channel],
                      IsPoison((*actual)[error.channel]) ? " (it was never written)" : ""));
      return finding;
    });
  }
  return compared;
}

}  // namespace lcab::measurement
