#include "measurement/truth.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "attention/reference.h"
#include "measurement/row_statistics.h"

namespace lcab::measurement {
namespace {

// A row before its tolerance is known.
struct Draft {
  TruthRow row;
  double emulated_error = 0;  // L2
};

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Of the largest row, well above the smallest number of fp32's and bf16's range, 2^-126, for sums
// over any number of tokens.
constexpr double kBeneathRange = 0x1p-100;

// No kernel is asked to be better than this: the rounding of a bf16 output, or a few roundings of
// fp32, in which sums run and exponentials are computed.
constexpr double kFewRoundings = 4 * 0x1p-24;
double LeastError(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-9 : kFewRoundings; }

Draft MakeDraft(Tensor tensor, int64_t head, int64_t token, std::vector<double> exact, double terms,
                const std::vector<double>& emulated) {
  Draft draft;
  draft.emulated_error = Distance(exact, emulated);
  draft.row = {
      .tensor = tensor, .head = head, .token = token, .values = std::move(exact), .scale = 0};
  draft.row.scale = std::max(Norm(draft.row.values), terms);
  return draft;
}

// Tolerances of the rows of one tensor, from the emulation's worst error among them. `lse` is the
// largest in size: a logit near it is known to fp32's rounding of it at best, and the weight it
// gives has that relative error, whatever the emulation was lucky with.
void SetAllowed(std::vector<Draft>& drafts, Tensor tensor, DType dtype, double lse) {
  double largest = 0;
  for (const Draft& draft : drafts) {
    if (draft.row.tensor == tensor) largest = std::max(largest, draft.row.scale);
  }
  double worst = std::max(LeastError(dtype), kFewRoundings * lse);
  for (Draft& draft : drafts) {
    if (draft.row.tensor != tensor || draft.row.scale == 0) continue;
    // Weights that fp32 cannot hold become 0, so an error may be all of a row that is made of them:
    // what is beneath the range is nothing, not a measure of precision.
    draft.row.scale = std::max(draft.row.scale, kBeneathRange * largest);
    worst = std::max(worst, draft.emulated_error / draft.row.scale);
  }
  for (Draft& draft : drafts) {
    if (draft.row.tensor == tensor) draft.row.allowed = kSlack * worst * draft.row.scale;
  }
}

// LSE is compared absolutely: 2e-4 covers exponentials of low precision, the second term fp32's
// rounding of large values, and the emulation's worst error what logits of large summands suffer.
void SetAllowedLse(std::vector<Draft>& drafts) {
  double worst = 0;
  for (const Draft& draft : drafts) worst = std::max(worst, draft.emulated_error);
  for (Draft& draft : drafts) {
    const double lse = draft.row.values[0];
    draft.row.allowed = std::isinf(lse) ? 0 : 2e-4 + 0x1p-21 * std::abs(lse) + kSlack * worst;
  }
}

class HeadTruth {
 public:
  HeadTruth(const Problem& problem, const HeadInputs& inputs, int64_t kv_head,
            const ParallelFor& parallel_for)
      : inputs_(inputs),
        kv_head_(kv_head),
        first_head_(kv_head * problem.heads_per_kv()),
        parallel_for_(parallel_for),
        spans_{inputs.q, inputs.k, inputs.v, inputs.dout, {}},
        exact_(inputs.problem, spans_, Precision::kExact),
        working_(inputs.problem, spans_, Precision::kWorking) {}

  std::vector<Draft> Forward(const RowSelection& selection) {
    const std::vector<HeadToken> rows = RowsOf(selection);
    std::vector<Draft> outs(rows.size()), lses(rows.size());
    parallel_for_(static_cast<int64_t>(rows.size()), [&](int64_t part) {
      const auto n = static_cast<size_t>(part);
      const auto [head, token] = rows[n];
      Reference::OutRow exact = exact_.Out(head, token);
      const Reference::OutRow working = working_.Out(head, token);
      lses[n].row = {.tensor = Tensor::kLse,
                     .head = first_head_ + head,
                     .token = token,
                     .values = {exact.lse},
                     .scale = 1};
      if (exact.lse != working.lse) lses[n].emulated_error = std::abs(exact.lse - working.lse);
      outs[n] = MakeDraft(Tensor::kOut, first_head_ + head, token, std::move(exact.out),
                          exact.terms, working.out);
    });
    SetAllowedLse(lses);
    double largest_lse = 0;
    for (const Draft& draft : lses) Note(draft.row.values[0], &largest_lse);
    SetAllowed(outs, Tensor::kOut, inputs_.problem.dtype, largest_lse);
    outs.insert(outs.end(), lses.begin(), lses.end());
    return outs;
  }

  std::vector<Draft> Backward(const RowSelection& selection) {
    const std::vector<HeadToken> rows = RowsOf(selection);
    const std::vector<int64_t>& keys = selection.keys[static_cast<size_t>(kv_head_)];
    // Keys need LSE and delta of all rows; a dQ row needs its own only.
    if (!keys.empty()) SetAllRows();
    std::vector<Draft> drafts(rows.size() + 2 * keys.size());
    parallel_for_(static_cast<int64_t>(rows.size()), [&](int64_t part) {
      const auto n = static_cast<size_t>(part);
      const auto [head, token] = rows[n];
      if (keys.empty()) {
        exact_.PrepareRows(head, {token, token + 1});
        working_.PrepareRows(head, {token, token + 1});
      }
      double terms = 0;
      std::vector<double> exact = exact_.DQ(head, token, &terms);
      drafts[n] = MakeDraft(Tensor::kDQ, first_head_ + head, token, std::move(exact), terms,
                            working_.DQ(head, token));
    });
    parallel_for_(static_cast<int64_t>(keys.size()), [&](int64_t part) {
      const auto n = static_cast<size_t>(part);
      Draft* dk = &drafts[rows.size() + 2 * n];
      double terms = 0;
      std::vector<double> exact = exact_.DK(0, keys[n], &terms);
      dk[0] = MakeDraft(Tensor::kDK, kv_head_, keys[n], std::move(exact), terms,
                        working_.DK(0, keys[n]));
      exact = exact_.DV(0, keys[n], &terms);
      dk[1] = MakeDraft(Tensor::kDV, kv_head_, keys[n], std::move(exact), terms,
                        working_.DV(0, keys[n]));
    });
    double largest_lse = 0;
    for (const auto& [head, token] : rows) Note(exact_.lse(head, token), &largest_lse);
    for (int64_t head = 0; head < inputs_.problem.q_heads && !keys.empty(); ++head) {
      for (int64_t row = 0; row < inputs_.problem.q_tokens(); ++row) {
        Note(exact_.lse(head, row), &largest_lse);
      }
    }
    for (const Tensor tensor : {Tensor::kDQ, Tensor::kDK, Tensor::kDV}) {
      SetAllowed(drafts, tensor, inputs_.problem.dtype, largest_lse);
    }
    return drafts;
  }

 private:
  struct HeadToken {
    int64_t head, token;  // head: within the group
  };

  static void Note(double lse, double* largest) {
    if (std::isfinite(lse)) *largest = std::max(*largest, std::abs(lse));
  }

  std::vector<HeadToken> RowsOf(const RowSelection& selection) const {
    std::vector<HeadToken> rows;
    for (int64_t head = 0; head < inputs_.problem.q_heads; ++head) {
      for (const int64_t row : selection.rows[static_cast<size_t>(first_head_ + head)]) {
        rows.push_back({head, row});
      }
    }
    return rows;
  }

  void SetAllRows() {
    const RowStatistics statistics = ComputeRowStatistics(inputs_, parallel_for_);
    const int64_t rows = inputs_.problem.q_tokens();
    for (int64_t head = 0; head < inputs_.problem.q_heads; ++head) {
      const auto of_head = [&](const std::vector<double>& values) {
        return std::span(values).subspan(static_cast<size_t>(head * rows),
                                         static_cast<size_t>(rows));
      };
      exact_.SetRows(head, {0, rows}, of_head(statistics.lse), of_head(statistics.delta));
      // A kernel in the working precision sees both in fp32, and delta from out as it is stored.
      std::vector<double> lse(static_cast<size_t>(rows)), delta(static_cast<size_t>(rows));
      for (size_t i = 0; i < lse.size(); ++i) {
        lse[i] = static_cast<float>(of_head(statistics.lse)[i]);
        delta[i] = static_cast<float>(of_head(statistics.delta_of_rounded)[i]);
      }
      working_.SetRows(head, {0, rows}, lse, delta);
    }
  }

  const HeadInputs& inputs_;
  const int64_t kv_head_;
  const int64_t first_head_;  // query head of the problem
  const ParallelFor& parallel_for_;
  const ReferenceInputs spans_;
  Reference exact_;
  Reference working_;
};

}  // namespace

std::vector<TruthRow> ComputeTruth(const Problem& problem, Pass pass, const InputSource& source,
                                   const RowSelection& selection, int64_t kv_head,
                                   const ParallelFor& parallel_for) {
  const HeadInputs inputs = MakeHeadInputs(problem, pass, source, kv_head, parallel_for);
  HeadTruth head(problem, inputs, kv_head, parallel_for);
  std::vector<Draft> drafts =
      pass == Pass::kForward ? head.Forward(selection) : head.Backward(selection);
  std::vector<TruthRow> rows;
  rows.reserve(drafts.size());
  for (Draft& draft : drafts) {
    draft.row.distribution = source.distribution;
    rows.push_back(std::move(draft.row));
  }
  return rows;
}

}  // namespace lcab::measurement
