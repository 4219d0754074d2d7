#include "measurement/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "attention/mask.h"

namespace lcab::measurement {
namespace {

constexpr double kUnit = 0x1p-24;  // of fp32
constexpr double kHalf = kUnit / 2;
// A logit is a dot product that is scaled, may have its query scaled before, and is subtracted
// from.
constexpr double kMoreRoundings = 3;
// Weights so small beside the sum that an addition may lose them whole. Unlike other roundings this
// one has the same sign each time; it ends with a tile, whose sum is large enough to be added.
constexpr double kLost = 2 * kUnit;
constexpr double kMostLost = 128 * kUnit;
// Numbers below fp32's and bf16's normal range may become 0.
constexpr double kLeastNormal = 0x1p-126;

double Square(double x) { return x * x; }

double SquaredNorm(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

struct Products {
  double sum = 0, squares = 0;
};

// In eight sums of each, for vector instructions.
Products ProductsOf(const float* a, const float* b, int64_t dim) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {}, squares[kLanes] = {};
  int64_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double product = static_cast<double>(a[d + lane]) * static_cast<double>(b[d + lane]);
      sums[lane] += product;
      squares[lane] += product * product;
    }
  }
  for (; d < dim; ++d) {
    const double product = static_cast<double>(a[d]) * static_cast<double>(b[d]);
    sums[0] += product;
    squares[0] += product * product;
  }
  Products result;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    result.sum += sums[lane];
    result.squares += squares[lane];
  }
  return result;
}

double SquaredNorm(const float* row, int64_t dim) {
  double sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum += Square(row[d]);
  return sum;
}

// Error of exp(x) relative to it, where x has the error `error`: expm1, so that what is allowed
// after kSlack still is an exponential's error when logits are so large that fp32 hardly holds
// them.
double OfExponential(double error) { return std::expm1(std::min(700.0, kSlack * error)) / kSlack; }

template <typename Visit>
int64_t ForEachToken(const std::vector<Interval>& intervals, Visit&& visit) {
  int64_t count = 0;
  for (const Interval& interval : intervals) {
    for (int64_t token = interval.begin; token < interval.end; ++token) visit(token);
    count += interval.end - interval.begin;
  }
  return count;
}

}  // namespace

double UnitRoundoff(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-8 : kUnit; }

Rounding::Rounding(const HeadInputs& inputs)
    : inputs_(inputs),
      heads_(inputs.problem.q_heads),
      qk_dim_(inputs.problem.qk_head_dim),
      v_dim_(inputs.problem.v_head_dim),
      scale_(inputs.problem.Scale()),
      softcap_(inputs.problem.Softcap()),
      half_dtype_(UnitRoundoff(inputs.problem.dtype) / 2),
      // Two units in the last place; a cubic, 1e-4 off at most, where P is rounded to eight bits.
      exponential_(inputs.problem.dtype == DType::kBFloat16 ? 0x1p-14 : 2 * kUnit) {}

const float* Rounding::Q(int64_t head, int64_t row) const {
  return inputs_.q.data() + (row * heads_ + head) * qk_dim_;
}
const float* Rounding::DOut(int64_t head, int64_t row) const {
  return inputs_.dout.data() + (row * heads_ + head) * v_dim_;
}

double Rounding::DotError2(double dim, double squares, double sum) const {
  return Square(kHalf) * (dim + kMoreRoundings) * (squares + sum * sum);
}

// Besides the function's own error its argument is rounded: the difference, and its product with a
// constant that is rounded, too, where the exponential is one of base 2.
double Rounding::ExponentialError2(double argument) const {
  return Square(exponential_) + Square(kUnit * argument);
}

Rounding::Score Rounding::ScoreOf(int64_t head, int64_t row, int64_t key) const {
  const Products products = ProductsOf(Q(head, row), K(key), qk_dim_);
  const double x = scale_ * products.sum;
  const double x_error2 =
      DotError2(static_cast<double>(qk_dim_), Square(scale_) * products.squares, x);
  if (softcap_ == 0) return {.value = x, .value_error2 = x_error2};
  const double t = std::tanh(x / softcap_);
  const double slope = 1 - t * t;
  return {.value = softcap_ * t,
          .slope = slope,
          .value_error2 = Square(slope) * x_error2 + Square(2 * kUnit * softcap_ * t),
          // 1 - t^2 is rounded near 1, however small it is.
          .slope_error2 = Square(2 * kUnit) + Square(2 * t * slope / softcap_) * x_error2};
}

Rounding::OfOut Rounding::Out(int64_t head, int64_t row, const Reference::OutRow& exact) const {
  std::vector<Interval> keys;
  inputs_.problem.mask->RowKeys(0, row, &keys);
  double error2 = 0, squares = 0, lse_error2 = 0, lost = 0, underflow = 0;
  const int64_t count = ForEachToken(keys, [&](int64_t key) {
    const Score score = ScoreOf(head, row, key);
    const float* v = V(key);
    double v2 = 0, apart2 = 0;
    for (int64_t d = 0; d < v_dim_; ++d) {
      v2 += Square(v[d]);
      apart2 += Square(v[d] - exact.out[static_cast<size_t>(d)]);
    }
    const double p = std::exp(score.value - exact.lse);
    // A weight's error moves out by p (v - out), and the LSE by p; P's rounding is not in the sum.
    const double p_error =
        std::min(1.0, p * OfExponential(std::sqrt(score.value_error2 +
                                                  ExponentialError2(score.value - exact.lse))));
    error2 += Square(p_error) * apart2 + Square(half_dtype_ * p) * v2;
    lse_error2 += Square(p_error);
    squares += p * p * v2;
    if (p < kLost) lost += std::min(p, kUnit);
    underflow += std::sqrt(v2);
  });
  if (count == 0) return {};
  const auto n = static_cast<double>(count);
  lost = std::min(lost, kMostLost);
  error2 += Square(lost) * SquaredNorm(exact.out);
  lse_error2 += Square(lost) + Square(exponential_) + Square(kHalf) * n +
                Square(kUnit * (1 + std::abs(exact.lse) + std::log(n)));
  return {.out = Finish(error2, n, squares, exact.out, underflow), .lse = std::sqrt(lse_error2)};
}

Rounding::RowState Rounding::StateOf(int64_t row, double lse, double delta,
                                     double delta_terms) const {
  // One heavy key makes the sum over keys delta itself, many of them what the sum over d is.
  return StateOf(row, lse, delta, delta_terms, Square(delta_terms) + Square(delta));
}

Rounding::RowState Rounding::StateOf(int64_t row, double lse, double delta, double delta_terms,
                                     double weight_terms2) const {
  if (std::isinf(lse)) return {.lse = lse, .delta = delta};
  // The LSE is as exact as logits of its size. Delta comes from an out that was rounded to the
  // dtype, element by element, and that sums over keys in fp32; and from weights that were
  // rounded to the dtype, unseen by their sum, each in all elements of out alike.
  const double lse_error2 =
      2 * DotError2(static_cast<double>(qk_dim_), 0, lse) + Square(kUnit) + Square(exponential_);
  const auto n = static_cast<double>(inputs_.problem.mask->RowCount(0, row));
  const double delta_error2 =
      Square(delta_terms) * (Square(half_dtype_) + Square(kHalf) * n + 2 * lse_error2) +
      weight_terms2 * Square(half_dtype_) +
      DotError2(static_cast<double>(v_dim_), Square(delta_terms), delta);
  return {.lse = lse,
          .delta = delta,
          .lse_error = std::sqrt(lse_error2),
          .delta_error = std::sqrt(delta_error2)};
}

Rounding::RowState Rounding::StateOf(int64_t head, int64_t row, double lse, double delta) const {
  std::vector<Interval> keys;
  inputs_.problem.mask->RowKeys(0, row, &keys);
  std::vector<double> out(static_cast<size_t>(v_dim_));
  double weight_terms2 = 0;
  ForEachToken(keys, [&](int64_t key) {
    const double p = std::exp(ScoreOf(head, row, key).value - lse);
    double dp = 0;
    for (int64_t d = 0; d < v_dim_; ++d) {
      out[static_cast<size_t>(d)] += p * V(key)[d];
      dp += static_cast<double>(DOut(head, row)[d]) * V(key)[d];
    }
    weight_terms2 += Square(p * dp);
  });
  double terms2 = 0;
  for (int64_t d = 0; d < v_dim_; ++d) {
    terms2 += Square(DOut(head, row)[d] * out[static_cast<size_t>(d)]);
  }
  // Over many keys the two are estimates of one spread: the larger counts.
  return StateOf(row, lse, delta, std::sqrt(terms2), std::max(weight_terms2, terms2));
}

Rounding::Pair Rounding::WeightOf(int64_t head, int64_t row, int64_t key,
                                  const RowState& state) const {
  const Score score = ScoreOf(head, row, key);
  const double p = std::exp(score.value - state.lse);
  const double error = std::sqrt(score.value_error2 + Square(state.lse_error) +
                                 ExponentialError2(score.value - state.lse));
  return {.p = p,
          .p_error = std::min(1.0, p * OfExponential(error)),
          .ds_error2 = score.slope_error2,
          .slope = score.slope};
}

Rounding::Pair Rounding::PairOf(int64_t head, int64_t row, int64_t key,
                                const RowState& state) const {
  Pair pair = WeightOf(head, row, key, state);
  const Products dp = ProductsOf(DOut(head, row), V(key), v_dim_);
  const double difference = dp.sum - state.delta;
  const double difference_error2 =
      DotError2(static_cast<double>(v_dim_), dp.squares, dp.sum) + Square(kUnit * state.delta);
  const double slope_error2 = pair.ds_error2;
  pair.ds = pair.p * difference * pair.slope;
  pair.ds_error2 = Square(pair.p_error * difference * pair.slope) +
                   Square(pair.p * pair.slope) * difference_error2 +
                   Square(pair.p * difference) * slope_error2 + Square(half_dtype_ * pair.ds);
  return pair;
}

double Rounding::DQ(int64_t head, int64_t row, const RowState& state,
                    std::span<const double> exact) const {
  std::vector<Interval> keys;
  inputs_.problem.mask->RowKeys(0, row, &keys);
  double error2 = 0, squares = 0, underflow = 0;
  std::vector<double> by_delta(static_cast<size_t>(qk_dim_));
  const int64_t count = ForEachToken(keys, [&](int64_t key) {
    const Pair pair = PairOf(head, row, key, state);
    const float* k = K(key);
    const double k2 = SquaredNorm(k, qk_dim_);
    error2 += pair.ds_error2 * k2;
    squares += Square(pair.ds) * k2;
    underflow += std::sqrt(k2);
    for (int64_t d = 0; d < qk_dim_; ++d) {
      by_delta[static_cast<size_t>(d)] += pair.p * pair.slope * k[d];
    }
  });
  if (count == 0) return 0;
  // Delta and the LSE are the same for all keys of the row.
  error2 += Square(state.delta_error) * SquaredNorm(by_delta);
  error2 = Square(scale_) * error2 + Square(state.lse_error) * SquaredNorm(exact);
  return Finish(error2, static_cast<double>(count), Square(scale_) * squares, exact,
                std::abs(scale_) * underflow);
}

template <typename Visit>
Rounding::Terms Rounding::OverRows(int64_t key, std::span<const RowState> states,
                                   const Visit& visit) const {
  std::vector<Interval> rows;
  inputs_.problem.mask->ColumnRows(0, key, &rows);
  Terms terms;
  for (int64_t head = 0; head < heads_; ++head) {
    terms.count += ForEachToken(rows, [&](int64_t row) {
      visit(head, row, states[static_cast<size_t>(head * inputs_.problem.q_tokens() + row)],
            &terms);
    });
  }
  return terms;
}

double Rounding::DK(int64_t key, std::span<const RowState> states,
                    std::span<const double> exact) const {
  const Terms terms =
      OverRows(key, states, [&](int64_t head, int64_t row, const RowState& state, Terms* sums) {
        const Pair pair = PairOf(head, row, key, state);
        const double q2 = SquaredNorm(Q(head, row), qk_dim_);
        sums->error2 += (pair.ds_error2 + Square(pair.p * pair.slope * state.delta_error)) * q2;
        sums->squares += Square(pair.ds) * q2;
        sums->underflow += std::sqrt(q2);
      });
  if (terms.count == 0) return 0;
  return Finish(Square(scale_) * terms.error2, static_cast<double>(terms.count),
                Square(scale_) * terms.squares, exact, std::abs(scale_) * terms.underflow);
}

double Rounding::DV(int64_t key, std::span<const RowState> states,
                    std::span<const double> exact) const {
  const Terms terms =
      OverRows(key, states, [&](int64_t head, int64_t row, const RowState& state, Terms* sums) {
        const Pair pair = WeightOf(head, row, key, state);
        const double dout2 = SquaredNorm(DOut(head, row), v_dim_);
        sums->error2 += (Square(pair.p_error) + Square(half_dtype_ * pair.p)) * dout2;
        sums->squares += Square(pair.p) * dout2;
        sums->underflow += std::sqrt(dout2);
      });
  if (terms.count == 0) return 0;
  return Finish(terms.error2, static_cast<double>(terms.count), terms.squares, exact,
                terms.underflow);
}

// What the sum itself and the rounding of the result add. Each of n additions rounds a partial sum
// whose square is at most that of the terms and of the result together, on average.
double Rounding::Finish(double error2, double n, double squares, std::span<const double> exact,
                        double underflow) const {
  const double result2 = SquaredNorm(exact);
  error2 += Square(kHalf) * n * (squares + result2) +
            (Square(half_dtype_) + Square(exponential_)) * result2;
  return std::sqrt(error2) +
         kLeastNormal * (underflow + std::sqrt(static_cast<double>(exact.size())));
}

}  // namespace lcab::measurement
