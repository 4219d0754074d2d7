#include "measurement/truth.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "attention/reference.h"
#include "measurement/rounding.h"
#include "measurement/row_statistics.h"

namespace lcab::measurement {
namespace {

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

TruthRow MakeRow(Tensor tensor, int64_t head, int64_t token, std::vector<double> exact,
                 double terms, double standard_error) {
  TruthRow row = {.tensor = tensor, .head = head, .token = token, .values = std::move(exact)};
  row.allowed = kSlack * standard_error;
  row.scale = std::max(Norm(row.values), terms);
  return row;
}

class HeadTruth {
 public:
  HeadTruth(const Problem& problem, const HeadInputs& inputs, int64_t kv_head,
            const ParallelFor& parallel_for)
      : inputs_(inputs),
        kv_head_(kv_head),
        first_head_(kv_head * problem.heads_per_kv()),
        parallel_for_(parallel_for),
        exact_(inputs.problem, {inputs.q, inputs.k, inputs.v, inputs.dout, {}}, Precision::kExact),
        rounding_(inputs) {}

  std::vector<TruthRow> Forward(const RowSelection& selection) {
    const std::vector<HeadToken> rows = RowsOf(selection);
    std::vector<TruthRow> truths(2 * rows.size());
    parallel_for_(static_cast<int64_t>(rows.size()), [&](int64_t part) {
      const auto n = static_cast<size_t>(part);
      const auto [head, token] = rows[n];
      Reference::OutRow exact = exact_.Out(head, token);
      const Rounding::OfOut error = rounding_.Out(head, token, exact);
      truths[2 * n] = MakeRow(Tensor::kOut, first_head_ + head, token, std::move(exact.out),
                              exact.terms, error.out);
      truths[2 * n + 1] = {.tensor = Tensor::kLse,
                           .head = first_head_ + head,
                           .token = token,
                           .values = {exact.lse},
                           .allowed = kSlack * error.lse,
                           .scale = 1};
    });
    return truths;
  }

  std::vector<TruthRow> Backward(const RowSelection& selection) {
    const std::vector<HeadToken> rows = RowsOf(selection);
    const std::vector<int64_t>& keys = selection.keys[static_cast<size_t>(kv_head_)];
    // Keys need LSE and delta of all rows; a dQ row needs its own only.
    if (!keys.empty()) SetAllRows();
    std::vector<TruthRow> truths(rows.size() + 2 * keys.size());
    parallel_for_(static_cast<int64_t>(rows.size()), [&](int64_t part) {
      const auto n = static_cast<size_t>(part);
      const auto [head, token] = rows[n];
      if (keys.empty()) exact_.PrepareRows(head, {token, token + 1});
      const Rounding::RowState state =
          rounding_.StateOf(head, token, exact_.lse(head, token), exact_.delta(head, token));
      double terms = 0;
      std::vector<double> exact = exact_.DQ(head, token, &terms);
      const double error = rounding_.DQ(head, token, state, exact);
      truths[n] = MakeRow(Tensor::kDQ, first_head_ + head, token, std::move(exact), terms, error);
    });
    parallel_for_(static_cast<int64_t>(keys.size()), [&](int64_t part) {
      const auto n = static_cast<size_t>(part);
      TruthRow* dk = &truths[rows.size() + 2 * n];
      double terms = 0;
      std::vector<double> exact = exact_.DK(0, keys[n], &terms);
      double error = rounding_.DK(keys[n], states_, exact);
      dk[0] = MakeRow(Tensor::kDK, kv_head_, keys[n], std::move(exact), terms, error);
      exact = exact_.DV(0, keys[n], &terms);
      error = rounding_.DV(keys[n], states_, exact);
      dk[1] = MakeRow(Tensor::kDV, kv_head_, keys[n], std::move(exact), terms, error);
    });
    return truths;
  }

 private:
  struct HeadToken {
    int64_t head, token;  // head: within the group
  };

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
    states_.reserve(static_cast<size_t>(inputs_.problem.q_heads * rows));
    for (int64_t head = 0; head < inputs_.problem.q_heads; ++head) {
      const auto of_head = [&](const std::vector<double>& values) {
        return std::span(values).subspan(static_cast<size_t>(head * rows),
                                         static_cast<size_t>(rows));
      };
      const auto lse = of_head(statistics.lse), delta = of_head(statistics.delta),
                 terms = of_head(statistics.delta_terms);
      exact_.SetRows(head, {0, rows}, lse, delta);
      for (int64_t row = 0; row < rows; ++row) {
        const auto n = static_cast<size_t>(row);
        states_.push_back(rounding_.StateOf(row, lse[n], delta[n], terms[n]));
      }
    }
  }

  const HeadInputs& inputs_;
  const int64_t kv_head_;
  const int64_t first_head_;  // query head of the problem
  const ParallelFor& parallel_for_;
  Reference exact_;
  const Rounding rounding_;
  std::vector<Rounding::RowState> states_;  // [q_heads, q_tokens], where keys are selected
};

}  // namespace

std::vector<TruthRow> ComputeTruth(const Problem& problem, Pass pass, const InputSource& source,
                                   const RowSelection& selection, int64_t kv_head,
                                   const ParallelFor& parallel_for) {
  const HeadInputs inputs = MakeHeadInputs(problem, pass, source, kv_head, parallel_for);
  HeadTruth head(problem, inputs, kv_head, parallel_for);
  std::vector<TruthRow> rows =
      pass == Pass::kForward ? head.Forward(selection) : head.Backward(selection);
  for (TruthRow& row : rows) row.distribution = source.distribution;
  return rows;
}

}  // namespace lcab::measurement
