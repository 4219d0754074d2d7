#include "measurement/honesty.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "attention/philox.h"
#include "measurement/shards.h"

namespace lcab::measurement {
namespace {

constexpr int64_t kStratum = 64;
constexpr uint32_t kWeights = 0x46494e47;  // purpose of the random stream

// What the order of sums may change, as a share of the root of the energy. Far above rounding, far
// below what one row in a stratum of 64 contributes (1/8).
double AllowedShare(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-6 : 0x1p-10; }

// Weights of one stratum: [kStratum][dim], uniform on [-1, 1) so that no permutation, sign or scale
// of rows goes unseen.
std::vector<float> DrawWeights(uint64_t seed, int64_t dim) {
  PhiloxStream random(seed, kWeights, static_cast<uint32_t>(dim));
  std::vector<float> weights(static_cast<size_t>(kStratum * dim));
  for (float& weight : weights) {
    weight = static_cast<float>(random.Next32()) * 0x1p-31F - 1.0F;
  }
  return weights;
}

uint64_t Mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15ULL;
  return state ^ (state >> 29);
}

// Of one row; where it stands is part of it.
struct RowPrint {
  double projection = 0;
  double energy = 0;
  uint64_t digest = 0;
  int64_t unwritten = 0;
  int64_t nans = 0;
};

RowPrint PrintOf(std::span<const float> row, const float* weights) {
  RowPrint print;
  float projection = 0, energy = 0;
  uint64_t digest = row.size();
  bool finite = true;
  for (size_t c = 0; c < row.size(); ++c) {
    const float weighted = row[c] * weights[c];
    projection += weighted;
    energy += weighted * weighted;
    digest = Mix(digest, std::bit_cast<uint32_t>(row[c]));
    finite = finite && std::isfinite(row[c]);
  }
  if (!finite) {
    // Infinities are values (the LSE of a row without keys) that the digest holds; NaN is not.
    projection = energy = 0;
    for (const float value : row) {
      if (IsPoison(value)) {
        ++print.unwritten;
      } else if (std::isnan(value)) {
        ++print.nans;
      }
    }
  }
  print.projection = projection;
  print.energy = energy;
  print.digest = digest;
  return print;
}

v1::Finding FindingAt(const Fingerprint::Place& place) {
  v1::Finding finding;
  finding.set_tensor(std::string(Name(place.tensor)));
  finding.set_head(place.head);
  finding.set_token(place.token);
  return finding;
}

struct Difference {
  double ratio = 0;
  size_t stratum = 0;
};

Difference LargestDifference(const Fingerprint& a, const Fingerprint& b, double share) {
  Difference worst;
  for (size_t n = 0; n < std::min(a.strata.size(), b.strata.size()); ++n) {
    const double distance = std::abs(a.strata[n].projection - b.strata[n].projection);
    if (distance == 0) continue;
    const double allowed = share * std::sqrt(std::max(a.strata[n].energy, b.strata[n].energy));
    const double ratio = distance / allowed;
    if (!(ratio <= worst.ratio)) worst = {std::isnan(ratio) ? kBeyondMeasure : ratio, n};
  }
  return worst;
}

}  // namespace

absl::StatusOr<Fingerprint> TakeFingerprint(std::span<const cp::Shard> shards, uint64_t seed,
                                            Device& device, absl::Time deadline) {
  Fingerprint fingerprint;
  for (const cp::Shard& shard : shards) {
    const std::vector<float> weights = DrawWeights(seed, DimOf(shard));
    const int64_t dim = DimOf(shard);
    const int64_t rows = RowsOf(shard);
    const int64_t strata = (rows + kStratum - 1) / kStratum;
    std::vector<RowPrint> prints(static_cast<size_t>(rows * shard.heads.size()));
    // Strata are of local rows: the same rows each time.
    absl::Status status = VisitRows(
        shard, shard.heads,
        [&](int64_t token, int64_t head, std::span<const float> values, int) {
          const int64_t row = shard.tokens.RowOf(token).value();
          prints[static_cast<size_t>((head - shard.heads.begin) * rows + row)] =
              PrintOf(values, weights.data() + row % kStratum * dim);
        },
        device, deadline);
    if (!status.ok()) return status;
    for (int64_t head = 0; head < shard.heads.size(); ++head) {
      for (int64_t s = 0; s < strata; ++s) {
        Fingerprint::Stratum stratum = {
            .tensor = shard.tensor,
            .head = shard.heads.begin + head,
            .first_token = shard.tokens.TokenAt(s * kStratum).value_or(-1)};
        for (int64_t row = s * kStratum; row < std::min(rows, (s + 1) * kStratum); ++row) {
          const RowPrint& print = prints[static_cast<size_t>(head * rows + row)];
          stratum.projection += print.projection;
          stratum.energy += print.energy;
          fingerprint.digest = Mix(fingerprint.digest, print.digest);
          const auto note = [&](int64_t count, int64_t* total,
                                std::optional<Fingerprint::Place>* first) {
            if (count > 0 && !first->has_value()) {
              *first = {stratum.tensor, stratum.head, shard.tokens.TokenAt(row).value_or(-1)};
            }
            *total += count;
          };
          note(print.unwritten, &fingerprint.unwritten, &fingerprint.first_unwritten);
          note(print.nans, &fingerprint.nans, &fingerprint.first_nan);
        }
        fingerprint.strata.push_back(stratum);
      }
    }
  }
  return fingerprint;
}

void FingerprintJudge::Judge(const Fingerprint& fingerprint, int64_t iteration, int inputs,
                             Findings* findings) {
  if (fingerprint.unwritten > 0) {
    findings->Check(Part::kHonesty, kBeyondMeasure, [&] {
      v1::Finding finding = FindingAt(*fingerprint.first_unwritten);
      finding.set_message(fmt::format(
          "iteration {} left {} elements as they were before it: they were never written",
          iteration, fingerprint.unwritten));
      return finding;
    });
  }
  if (fingerprint.nans > 0) {
    findings->Check(Part::kHonesty, kBeyondMeasure, [&] {
      v1::Finding finding = FindingAt(*fingerprint.first_nan);
      finding.set_message(fmt::format("iteration {} computed {} elements that are NaN", iteration,
                                      fingerprint.nans));
      return finding;
    });
  }

  const auto [place, is_first] = first_.try_emplace(inputs, First{fingerprint, iteration});
  if (is_first) {
    for (const auto& [other_inputs, other] : first_) {
      if (other_inputs == inputs || other.fingerprint.digest != fingerprint.digest ||
          fingerprint.unwritten > 0) {
        continue;
      }
      // Equal also where there is nothing to compute: then no element depends on the inputs.
      const bool all_zero = std::all_of(fingerprint.strata.begin(), fingerprint.strata.end(),
                                        [](const auto& stratum) { return stratum.energy == 0; });
      if (all_zero) continue;
      findings->Fail(Part::kHonesty,
                     fmt::format("inputs changed before iteration {}, and its output is still that "
                                 "of iteration {}: an earlier output was given again",
                                 iteration, other.iteration));
    }
    return;
  }
  const First& first = place->second;
  if (first.fingerprint.digest == fingerprint.digest) return;
  const Difference worst = LargestDifference(first.fingerprint, fingerprint, AllowedShare(dtype_));
  if (worst.ratio <= 1 && !deterministic_) return;
  findings->Check(Part::kHonesty, deterministic_ ? kBeyondMeasure : worst.ratio, [&] {
    const Fingerprint::Stratum& stratum = fingerprint.strata[worst.stratum];
    v1::Finding finding = FindingAt({stratum.tensor, stratum.head, stratum.first_token});
    finding.set_message(fmt::format(
        "iterations {} and {} had the same inputs, and their outputs differ{} in the 64 rows from "
        "here on",
        first.iteration, iteration,
        deterministic_ && worst.ratio <= 1
            ? " in their last bits, though the kernel says that it is deterministic,"
            : ""));
    return finding;
  });
}

void CheckRate(int64_t flops, double seconds, double peak_flops, Findings* findings) {
  if (peak_flops <= 0 || seconds <= 0) return;
  const double rate = static_cast<double>(flops) / seconds;
  if (rate <= peak_flops) return;
  findings->Check(Part::kHonesty, rate / peak_flops, [&] {
    v1::Finding finding;
    finding.set_head(-1);
    finding.set_token(-1);
    finding.set_expected(peak_flops);
    finding.set_actual(rate);
    finding.set_message(fmt::format("{:.4g} GFLOP/s, of at most {:.4g} that the arithmetic allows",
                                    rate / 1e9, peak_flops / 1e9));
    return finding;
  });
}

void CheckUnchanged(const Fingerprint& before, const Fingerprint& now, std::string_view what,
                    Findings* findings) {
  if (before.digest == now.digest) return;
  const Difference worst = LargestDifference(before, now, 1e-12);
  findings->Check(Part::kHonesty, kBeyondMeasure, [&] {
    const Fingerprint::Stratum& stratum = now.strata[worst.stratum];
    v1::Finding finding = FindingAt({stratum.tensor, stratum.head, stratum.first_token});
    finding.set_message(
        fmt::format("the kernel changed its {}: in the 64 rows from here on", what));
    return finding;
  });
}

}  // namespace lcab::measurement
