// How far rounding alone takes a good kernel from the exact row: the standard error of a row's L2
// norm, to first order, from the row's own numbers. docs/verification.md derives it.
//
// A good kernel adds up products of the dtype's values in fp32, in any order; rounds P and dS to
// the dtype before they are multiplied, and results to the dtype; keeps LSE and delta in fp32. An
// operation of unit roundoff u is counted with the root mean square of its error, u / 2, and errors
// of different operations as independent.

#ifndef LCAB_MEASUREMENT_ROUNDING_H_
#define LCAB_MEASUREMENT_ROUNDING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attention/reference.h"
#include "measurement/head_inputs.h"

namespace lcab::measurement {

// How many standard errors a row may be off.
inline constexpr double kSlack = 3;

// The largest relative error of a rounding to the dtype: 2^-24 or 2^-8.
double UnitRoundoff(DType dtype);

class Rounding {
 public:
  // `inputs` must outlive it.
  explicit Rounding(const HeadInputs& inputs);

  // LSE and delta of a row as the backward pass is given them.
  struct RowState {
    double lse = 0, delta = 0;
    double lse_error = 0, delta_error = 0;  // standard errors
  };
  // `delta_terms`: root of sum_d (dout_d out_d)^2, of which delta is the sum. What the rounding of
  // a weight does to delta is guessed at from these two.
  RowState StateOf(int64_t row, double lse, double delta, double delta_terms) const;
  // Both from the row's keys.
  RowState StateOf(int64_t head, int64_t row, double lse, double delta) const;

  // `weight_terms2`: sum_j (p_j dP_j)^2, of which delta is the sum, too.
  RowState StateOf(int64_t row, double lse, double delta, double delta_terms,
                   double weight_terms2) const;

  struct OfOut {
    double out = 0, lse = 0;
  };
  // `head` is that of the group. 0 where there is no key, also below.
  OfOut Out(int64_t head, int64_t row, const Reference::OutRow& exact) const;
  double DQ(int64_t head, int64_t row, const RowState& state, std::span<const double> exact) const;
  // `states` are [q_heads, q_tokens].
  double DK(int64_t key, std::span<const RowState> states, std::span<const double> exact) const;
  double DV(int64_t key, std::span<const RowState> states, std::span<const double> exact) const;

 private:
  struct Score {
    double value = 0, slope = 1;
    double value_error2 = 0, slope_error2 = 0;  // squared standard errors
  };
  struct Pair {
    double p = 0, p_error = 0;
    double ds = 0, ds_error2 = 0;  // without what delta's error does
    double slope = 1;
  };
  // What the rows that see a key add up to: how many, the squared error that their own errors make,
  // the squares of what is added, and their norms.
  struct Terms {
    int64_t count = 0;
    double error2 = 0, squares = 0, underflow = 0;
  };
  // `visit(head, row, state, &terms)` adds one row's.
  template <typename Visit>
  Terms OverRows(int64_t key, std::span<const RowState> states, const Visit& visit) const;

  const float* Q(int64_t head, int64_t row) const;
  const float* DOut(int64_t head, int64_t row) const;
  const float* K(int64_t key) const { return inputs_.k.data() + key * qk_dim_; }
  const float* V(int64_t key) const { return inputs_.v.data() + key * v_dim_; }

  Score ScoreOf(int64_t head, int64_t row, int64_t key) const;
  Pair WeightOf(int64_t head, int64_t row, int64_t key, const RowState& state) const;
  Pair PairOf(int64_t head, int64_t row, int64_t key, const RowState& state) const;
  // Squared standard errors: of a dot product in fp32 whose products' squares add up to `squares`;
  // of an exponential, relative to it; of a row, see the .cc.
  double DotError2(double dim, double squares, double sum) const;
  double ExponentialError2(double argument) const;
  double Finish(double error2, double n, double squares, std::span<const double> exact,
                double underflow) const;

  const HeadInputs& inputs_;
  const int64_t heads_, qk_dim_, v_dim_;
  const double scale_, softcap_;
  const double half_dtype_;   // u / 2 of the dtype
  const double exponential_;  // relative error of an exponential
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_ROUNDING_H_
