// For tests of tolerances and lcab-tolerance-report: a problem's truths, how near to what is
// allowed a kernel or an emulation of one comes, and how small a fault is found.

#ifndef LCAB_MEASUREMENT_TOLERANCE_BENCH_FOR_TEST_H_
#define LCAB_MEASUREMENT_TOLERANCE_BENCH_FOR_TEST_H_

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attention/mask.h"
#include "attention/masks.h"
#include "attention/reference.h"
#include "device/device.h"
#include "gtest/gtest.h"
#include "measurement/head_inputs.h"
#include "measurement/one_rank_for_test.h"
#include "measurement/rounding.h"
#include "measurement/row_selection.h"
#include "measurement/truth.h"

namespace lcab::measurement {

using Ratios = std::map<Tensor, double>;  // error as a share of what is allowed: the worst row's

inline void RunHere(int64_t parts, const std::function<void(int64_t)>& body) {
  for (int64_t part = 0; part < parts; ++part) body(part);
}

inline double RatioOf(const TruthRow& row, std::span<const double> values) {
  double sum = 0;
  for (size_t d = 0; d < values.size(); ++d) {
    if (values[d] == row.values[d]) continue;
    sum += (values[d] - row.values[d]) * (values[d] - row.values[d]);
  }
  return sum == 0 ? 0 : std::sqrt(sum) / row.allowed;
}

inline void Note(Ratios* ratios, Tensor tensor, double ratio) {
  double& worst = (*ratios)[tensor];
  // NaN is the worst of all.
  if (!(ratio <= worst)) worst = std::isnan(ratio) ? HUGE_VAL : ratio;
}

inline void Raise(Ratios* all, const Ratios& some) {
  for (const auto& [tensor, ratio] : some) Note(all, tensor, ratio);
}

inline double Worst(const Ratios& ratios) {
  double worst = 0;
  for (const auto& [tensor, ratio] : ratios) worst = std::max(worst, ratio);
  return worst;
}

inline std::string Text(const Ratios& ratios) {
  std::string text;
  for (const auto& [tensor, ratio] : ratios) text += fmt::format(" {} {:.2f}", Name(tensor), ratio);
  return text;
}

inline InputSource SourceFor(const Problem& problem, uint64_t seed, Distribution distribution) {
  return {.seed = seed,
          .distribution = distribution,
          .dtype = problem.dtype,
          .heads_per_kv = problem.heads_per_kv()};
}

// A problem's truths, and what is held against them.
class Bench {
 public:
  Bench(const Problem& problem, uint64_t seed, Distribution distribution)
      : problem_(problem), source_(SourceFor(problem, seed, distribution)) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      selections_[pass] = SelectRows(problem, pass, seed);
      for (int64_t head = 0; head < problem.kv_heads; ++head) {
        const std::vector<TruthRow> rows =
            ComputeTruth(problem, pass, source_, selections_[pass], head, RunHere);
        truths_[pass].insert(truths_[pass].end(), rows.begin(), rows.end());
      }
    }
  }

  Ratios OfKernel(const std::string& kernel) {
    Ratios ratios;
    for (const auto& [pass, truths] : truths_) {
      const KeptRows rows =
          RowsOfKernel(problem_, pass, kernel, source_, selections_[pass], *device_);
      for (const TruthRow& truth : truths) {
        const std::vector<float>* row = rows.Find(truth.tensor, truth.head, truth.token);
        if (row == nullptr) {
          ADD_FAILURE() << kernel << " has no " << Name(truth.tensor) << " of token "
                        << truth.token;
          continue;
        }
        Note(&ratios, truth.tensor, RatioOf(truth, std::vector<double>(row->begin(), row->end())));
      }
    }
    return ratios;
  }

  // Of a row by row emulation in the working precision, which may have another mask than it should.
  Ratios OfEmulation(const Problem& emulated) const {
    Ratios ratios;
    for (int64_t kv_head = 0; kv_head < problem_.kv_heads; ++kv_head) {
      const HeadInputs inputs =
          MakeHeadInputs(emulated, Pass::kBackward, source_, kv_head, RunHere);
      Reference working(inputs.problem, {inputs.q, inputs.k, inputs.v, inputs.dout, {}},
                        Precision::kWorking);
      const int64_t heads = inputs.problem.q_heads;
      for (int64_t head = 0; head < heads; ++head) {
        working.PrepareRows(head, {0, inputs.problem.q_tokens()});
      }
      for (const auto& [pass, truths] : truths_) {
        for (const TruthRow& truth : truths) {
          const bool by_key = truth.tensor == Tensor::kDK || truth.tensor == Tensor::kDV;
          const int64_t head = truth.head - kv_head * heads;
          if (by_key ? truth.head != kv_head : head < 0 || head >= heads) continue;
          Note(&ratios, truth.tensor, RatioOf(truth, RowOf(working, truth, by_key ? 0 : head)));
        }
      }
    }
    return ratios;
  }

  const std::vector<TruthRow>& truths(Pass pass) const { return truths_.at(pass); }
  const InputSource& source() const { return source_; }

 private:
  static std::vector<double> RowOf(const Reference& working, const TruthRow& truth, int64_t head) {
    switch (truth.tensor) {
      case Tensor::kOut:
        return working.Out(head, truth.token).out;
      case Tensor::kLse:
        return {working.lse(head, truth.token)};
      case Tensor::kDQ:
        return working.DQ(head, truth.token);
      case Tensor::kDK:
        return working.DK(0, truth.token);
      default:
        return working.DV(0, truth.token);
    }
  }

  const Problem problem_;
  const InputSource source_;
  const std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
  std::map<Pass, RowSelection> selections_;
  std::map<Pass, std::vector<TruthRow>> truths_;
};

// Every named mask, with parameters that fit a few hundred tokens.
inline std::vector<std::pair<std::string, Options>> Masks() {
  std::vector<std::pair<std::string, Options>> masks;
  for (const MaskType& type : MaskTypes()) {
    if (type.name == "slices") continue;  // made of the kinds of the others
    Options options;
    for (const Parameter& parameter : type.parameters) {
      if (parameter.name == "window") options["window"] = Value{int64_t{50}};
      if (parameter.name == "block") options["block"] = Value{int64_t{64}};
      if (parameter.name == "lengths") {
        options["lengths"] = Value{Value::List{Value{int64_t{100}}, Value{int64_t{7}},
                                               Value{int64_t{150}}, Value{int64_t{1}}}};
      }
    }
    masks.emplace_back(type.name, options);
  }
  return masks;
}

struct Good {
  std::string what;
  Ratios ratios;
};

// Both CPU kernels and the emulation.
inline std::vector<Good> RunGood(const Problem& problem, uint64_t seed, Distribution distribution) {
  Bench bench(problem, seed, distribution);
  return {{"cpu_tiled", bench.OfKernel("cpu_tiled")},
          {"cpu_reference", bench.OfKernel("cpu_reference")},
          {"emulation", bench.OfEmulation(problem)}};
}

inline Mask Slices(int64_t q_tokens, int64_t k_tokens, const std::vector<Slice>& slices) {
  return Mask::FromSlices(q_tokens, k_tokens, slices).value();
}

// Of a row of so many keys, all of normal inputs: the share of keys that cannot be left out without
// being found, and the relative error that is allowed.
struct Reach {
  double found = 0, allowed = 0;
};
inline Reach ReachOf(int64_t keys, DType dtype) {
  Problem problem = MakeProblem({"full", {}, 1, 1, 1, 64, 64, dtype});
  problem.mask = std::make_shared<const Mask>(Slices(1, keys, {{0, 1, 0, keys, SliceKind::kFull}}));
  const HeadInputs inputs = MakeHeadInputs(
      problem, Pass::kForward, SourceFor(problem, 7, Distribution::kNormal), 0, RunHere);
  const Reference exact(inputs.problem, {inputs.q, inputs.k, inputs.v, {}, {}}, Precision::kExact);
  const Reference::OutRow out = exact.Out(0, 0);
  const double allowed = kSlack * Rounding(inputs).Out(0, 0, out).out;
  double norm2 = 0;
  for (const double value : out.out) norm2 += value * value;
  int64_t found = 0;
  for (int64_t key = 0; key < keys; ++key) {
    double score = 0, apart2 = 0;
    for (size_t d = 0; d < 64; ++d) {
      const size_t place = static_cast<size_t>(key) * 64 + d;
      score += static_cast<double>(inputs.q[d]) * inputs.k[place];
      apart2 += (inputs.v[place] - out.out[d]) * (inputs.v[place] - out.out[d]);
    }
    const double p = std::exp(problem.Scale() * score - out.lse);
    if (p / (1 - p) * std::sqrt(apart2) > allowed) ++found;
  }
  return {static_cast<double>(found) / static_cast<double>(keys), allowed / std::sqrt(norm2)};
}

inline constexpr int64_t kDims[] = {16, 64, 128, 256};
inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_TOLERANCE_BENCH_FOR_TEST_H_
