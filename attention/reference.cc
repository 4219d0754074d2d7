// Attention as its formulas read, one row or one key at a time.
//
// Both precisions run the same code on another number type. In the working precision that is float,
// and what a good kernel rounds to the problem's dtype is rounded here: P and dS before their
// products, and results. Sums run over tiles of keys or rows, as in a kernel: each tile is added up
// by itself and then to the total, which keeps the error of long rows near that of good kernels.

#include "attention/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace lcab {
namespace {

constexpr int64_t kTile = 128;  // keys or rows

// A tensor of inputs, [tokens, heads, dim].
struct Rows {
  const float* data;
  int64_t heads, dim;

  const float* At(int64_t token, int64_t head) const { return data + (token * heads + head) * dim; }
};

template <typename T>
T Rounded(T value, DType dtype) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::kBFloat16) return ToFloat(ToBFloat16(value));
  }
  return value;
}

// In eight interleaved sums, so that vector instructions can be used without changing the result.
template <typename T>
T Dot(const float* a, const float* b, int64_t dim) {
  constexpr int64_t kLanes = 8;
  std::array<T, kLanes> sums{};
  int64_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<size_t>(lane)] += static_cast<T>(a[d + lane]) * static_cast<T>(b[d + lane]);
    }
  }
  for (; d < dim; ++d) sums[0] += static_cast<T>(a[d]) * static_cast<T>(b[d]);
  T total{};
  for (const T sum : sums) total += sum;
  return total;
}

// A weighted sum of rows, tile by tile.
template <typename T>
class WeightedSum {
 public:
  explicit WeightedSum(int64_t dim)
      : total_(static_cast<size_t>(dim), T{}), tile_(static_cast<size_t>(dim), T{}) {}

  void Add(T weight, const float* row) {
    for (size_t d = 0; d < tile_.size(); ++d) tile_[d] += weight * static_cast<T>(row[d]);
    if (++in_tile_ == kTile) CloseTile();
  }

  // What Rounded(factor * sum) gives.
  std::vector<double> Finish(T factor, DType dtype) {
    CloseTile();
    std::vector<double> result;
    result.reserve(total_.size());
    for (const T x : total_) result.push_back(Rounded<T>(factor * x, dtype));
    return result;
  }

 private:
  void CloseTile() {
    for (size_t d = 0; d < tile_.size(); ++d) {
      total_[d] += tile_[d];
      tile_[d] = T{};
    }
    in_tile_ = 0;
  }

  std::vector<T> total_, tile_;
  int64_t in_tile_ = 0;
};

// The problem with its inputs, in number type T.
template <typename T>
class Arithmetic {
 public:
  Arithmetic(const Problem& problem, const ReferenceInputs& inputs)
      : problem_(problem),
        q_{inputs.q.data(), problem.q_heads, problem.qk_head_dim},
        k_{inputs.k.data(), problem.kv_heads, problem.qk_head_dim},
        v_{inputs.v.data(), problem.kv_heads, problem.v_head_dim},
        dout_{inputs.dout.data(), problem.q_heads, problem.v_head_dim},
        scale_(static_cast<T>(problem.Scale())),
        softcap_(static_cast<T>(problem.Softcap())) {}

  Reference::OutRow Out(int64_t q_head, int64_t row) const {
    const int64_t kv_head = problem_.KvHeadOf(q_head);
    std::vector<Interval> keys;
    problem_.mask->RowKeys(problem_.MaskGroupOf(q_head), row, &keys);
    std::vector<T> scores;
    for (const Interval& interval : keys) {
      for (int64_t key = interval.begin; key < interval.end; ++key) {
        scores.push_back(Score(q_head, row, kv_head, key).value);
      }
    }
    Reference::OutRow result;
    if (scores.empty()) {
      result.out.assign(static_cast<size_t>(problem_.v_head_dim), 0);
      result.lse = -std::numeric_limits<double>::infinity();
      return result;
    }
    const T largest = *std::max_element(scores.begin(), scores.end());
    T sum{}, tile_sum{};
    WeightedSum<T> out(problem_.v_head_dim);
    double squares = 0;
    size_t n = 0;
    for (const Interval& interval : keys) {
      for (int64_t key = interval.begin; key < interval.end; ++key, ++n) {
        const T weight = std::exp(scores[n] - largest);
        tile_sum += weight;
        if ((n + 1) % kTile == 0) {
          sum += tile_sum;
          tile_sum = T{};
        }
        const float* v = v_.At(key, kv_head);
        out.Add(Rounded<T>(weight, problem_.dtype), v);
        squares += Square(weight) * Square(v, problem_.v_head_dim);
      }
    }
    sum += tile_sum;
    result.out = out.Finish(1 / sum, problem_.dtype);
    result.lse = largest + std::log(sum);
    result.terms = std::sqrt(squares) / static_cast<double>(sum);
    return result;
  }

  // sum_d dOut * out - dLSE.
  double Delta(int64_t q_head, int64_t row, const std::vector<double>& out, float dlse) const {
    const float* dout = dout_.At(row, q_head);
    T sum{};
    for (size_t d = 0; d < out.size(); ++d) sum += static_cast<T>(dout[d]) * static_cast<T>(out[d]);
    return sum - static_cast<T>(dlse);
  }

  std::vector<double> DQ(int64_t q_head, int64_t row, double lse, double delta,
                         double* terms) const {
    const int64_t kv_head = problem_.KvHeadOf(q_head);
    std::vector<Interval> keys;
    problem_.mask->RowKeys(problem_.MaskGroupOf(q_head), row, &keys);
    WeightedSum<T> dq(problem_.qk_head_dim);
    double squares = 0;
    for (const Interval& interval : keys) {
      for (int64_t key = interval.begin; key < interval.end; ++key) {
        const Pair pair = PairOf(q_head, row, kv_head, key, lse, delta);
        const float* k = k_.At(key, kv_head);
        dq.Add(Rounded<T>(pair.ds, problem_.dtype), k);
        squares += pair.ds_square * Square(k, problem_.qk_head_dim);
      }
    }
    if (terms != nullptr) *terms = std::abs(problem_.Scale()) * std::sqrt(squares);
    return dq.Finish(scale_, problem_.dtype);
  }

  // `lse` and `delta` are [q_heads, q_tokens].
  std::vector<double> DK(int64_t kv_head, int64_t key, const std::vector<double>& lse,
                         const std::vector<double>& delta, double* terms) const {
    WeightedSum<T> dk(problem_.qk_head_dim);
    double squares = 0;
    ForEachRowOf(kv_head, key, [&](int64_t q_head, int64_t row) {
      const auto at = static_cast<size_t>(q_head * problem_.q_tokens() + row);
      const Pair pair = PairOf(q_head, row, kv_head, key, lse[at], delta[at]);
      const float* q = q_.At(row, q_head);
      dk.Add(Rounded<T>(pair.ds, problem_.dtype), q);
      squares += pair.ds_square * Square(q, problem_.qk_head_dim);
    });
    if (terms != nullptr) *terms = std::abs(problem_.Scale()) * std::sqrt(squares);
    return dk.Finish(scale_, problem_.dtype);
  }

  std::vector<double> DV(int64_t kv_head, int64_t key, const std::vector<double>& lse,
                         double* terms) const {
    WeightedSum<T> dv(problem_.v_head_dim);
    double squares = 0;
    ForEachRowOf(kv_head, key, [&](int64_t q_head, int64_t row) {
      const auto at = static_cast<size_t>(q_head * problem_.q_tokens() + row);
      const T p = std::exp(Score(q_head, row, kv_head, key).value - static_cast<T>(lse[at]));
      const float* dout = dout_.At(row, q_head);
      dv.Add(Rounded<T>(p, problem_.dtype), dout);
      squares += Square(p) * Square(dout, problem_.v_head_dim);
    });
    if (terms != nullptr) *terms = std::sqrt(squares);
    return dv.Finish(T{1}, problem_.dtype);
  }

 private:
  // f(scale * q . k), and f' there.
  struct ScoreOf {
    T value, slope;
  };
  // dS of one pair, and the square of what its rounding errors are in proportion to: P times dP,
  // delta and what dP adds up (which may cancel). The slope of the softcap is left out: where
  // logits saturate, it is the small difference of numbers near 1.
  struct Pair {
    T ds;
    double ds_square;
  };

  static double Square(T x) { return static_cast<double>(x) * static_cast<double>(x); }
  static double Square(const float* row, int64_t dim) { return Dot<double>(row, row, dim); }

  ScoreOf Score(int64_t q_head, int64_t row, int64_t kv_head, int64_t key) const {
    const T x = scale_ * Dot<T>(q_.At(row, q_head), k_.At(key, kv_head), problem_.qk_head_dim);
    if (softcap_ == 0) return {x, T{1}};
    const T t = std::tanh(x / softcap_);
    return {softcap_ * t, 1 - t * t};
  }

  Pair PairOf(int64_t q_head, int64_t row, int64_t kv_head, int64_t key, double lse,
              double delta) const {
    const ScoreOf score = Score(q_head, row, kv_head, key);
    const T p = std::exp(score.value - static_cast<T>(lse));
    const T dp = Dot<T>(dout_.At(row, q_head), v_.At(key, kv_head), problem_.v_head_dim);
    const T d = static_cast<T>(delta);
    return {p * (dp - d) * score.slope,
            Square(p) * (Square(dp) + Square(d) +
                         SquareOfProducts(dout_.At(row, q_head), v_.At(key, kv_head)))};
  }

  // sum_d (dout_d v_d)^2, where dP is sum_d dout_d v_d; of the exact arithmetic only.
  double SquareOfProducts(const float* dout, const float* v) const {
    double sum = 0;
    if constexpr (std::is_same_v<T, double>) {
      for (int64_t d = 0; d < problem_.v_head_dim; ++d) {
        const double product = static_cast<double>(dout[d]) * static_cast<double>(v[d]);
        sum += product * product;
      }
    }
    return sum;
  }

  template <typename Visit>
  void ForEachRowOf(int64_t kv_head, int64_t key, Visit&& visit) const {
    std::vector<Interval> rows;
    problem_.mask->ColumnRows(problem_.mask->GroupOf(kv_head), key, &rows);
    const int64_t heads = problem_.heads_per_kv();
    for (int64_t head = kv_head * heads; head < (kv_head + 1) * heads; ++head) {
      for (const Interval& interval : rows) {
        for (int64_t row = interval.begin; row < interval.end; ++row) visit(head, row);
      }
    }
  }

  const Problem& problem_;
  Rows q_, k_, v_, dout_;
  T scale_, softcap_;
};

// Calls compute(Arithmetic) in the number type of the precision.
template <typename Compute>
auto In(Precision precision, const Problem& problem, const ReferenceInputs& inputs,
        Compute&& compute) {
  return precision == Precision::kExact ? compute(Arithmetic<double>(problem, inputs))
                                        : compute(Arithmetic<float>(problem, inputs));
}

}  // namespace

Reference::Reference(const Problem& problem, ReferenceInputs inputs, Precision precision)
    : problem_(problem), inputs_(inputs), precision_(precision) {
  const auto rows = static_cast<size_t>(problem.q_heads * problem.q_tokens());
  lse_.assign(rows, 0);
  delta_.assign(rows, 0);
}

size_t Reference::Index(int64_t q_head, int64_t row) const {
  return static_cast<size_t>(q_head * problem_.q_tokens() + row);
}

Reference::OutRow Reference::Out(int64_t q_head, int64_t row) const {
  return In(precision_, problem_, inputs_, [&](const auto& in) { return in.Out(q_head, row); });
}

void Reference::PrepareRows(int64_t q_head, Interval rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const size_t index = Index(q_head, row);
    const float dlse = inputs_.dlse.empty() ? 0 : inputs_.dlse[index];
    In(precision_, problem_, inputs_, [&](const auto& in) {
      const OutRow out = in.Out(q_head, row);
      lse_[index] = out.lse;
      delta_[index] = inputs_.dout.empty() ? -dlse : in.Delta(q_head, row, out.out, dlse);
    });
  }
}

void Reference::SetRows(int64_t q_head, Interval rows, std::span<const double> lse,
                        std::span<const double> delta) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const auto n = static_cast<size_t>(row - rows.begin);
    lse_[Index(q_head, row)] = lse[n];
    delta_[Index(q_head, row)] = delta[n];
  }
}

double Reference::lse(int64_t q_head, int64_t row) const { return lse_[Index(q_head, row)]; }
double Reference::delta(int64_t q_head, int64_t row) const { return delta_[Index(q_head, row)]; }

std::vector<double> Reference::DQ(int64_t q_head, int64_t row, double* terms) const {
  return In(precision_, problem_, inputs_, [&](const auto& in) {
    return in.DQ(q_head, row, lse(q_head, row), delta(q_head, row), terms);
  });
}

std::vector<double> Reference::DK(int64_t kv_head, int64_t key, double* terms) const {
  return In(precision_, problem_, inputs_,
            [&](const auto& in) { return in.DK(kv_head, key, lse_, delta_, terms); });
}

std::vector<double> Reference::DV(int64_t kv_head, int64_t key, double* terms) const {
  return In(precision_, problem_, inputs_,
            [&](const auto& in) { return in.DV(kv_head, key, lse_, terms); });
}

}  // namespace lcab
