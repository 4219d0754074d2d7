// The slow, obvious truth in fp64, row by row: every check ends here.
//
// A row with no allowed key has out 0, LSE -inf, dQ 0 and adds nothing to dK and dV; a key that no
// row sees has dK = dV = 0.

#ifndef LCAB_ATTENTION_REFERENCE_H_
#define LCAB_ATTENTION_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/problem.h"

namespace lcab {

// Inputs of a whole problem, contiguous [tokens, heads, dim]; dout and dlse may be empty where
// only the forward pass is asked. dlse is [q_heads, q_tokens]; empty means zero. Sizes are those of
// the problem's ExtentOf(), values those of its dtype.
struct ReferenceInputs {
  std::span<const float> q, k, v, dout, dlse;
};

// The arithmetic in which rows are computed.
enum class Precision {
  kExact,    // fp64 throughout
  kWorking,  // an emulation of a good kernel in the problem's dtype: products of dtype values
             // accumulated in fp32, in tiles of 128 keys or rows; P and dS rounded to the dtype
             // before the second product; the row sum of P not rounded; LSE and delta in fp32;
             // results rounded to the dtype. What tolerances are tried on.
};

class Reference {
 public:
  // `problem` and the inputs must outlive this object. Starts nothing.
  Reference(const Problem& problem, ReferenceInputs inputs, Precision precision);

  struct OutRow {
    std::vector<double> out;  // [v_head_dim]
    double lse = 0;           // natural log; -inf when the row has no key
    double terms = 0;         // root of sum_j |P_ij v_j|^2
  };
  OutRow Out(int64_t q_head, int64_t row) const;

  // LSE and delta (sum_d dOut * out, minus dLSE) of rows [rows.begin, rows.end) of one head, which
  // the gradients below read. Ranges that do not overlap may run on several threads.
  void PrepareRows(int64_t q_head, Interval rows);
  // The same from elsewhere (a faster fp64 computation): rows.size() values each.
  void SetRows(int64_t q_head, Interval rows, std::span<const double> lse,
               std::span<const double> delta);
  double lse(int64_t q_head, int64_t row) const;
  double delta(int64_t q_head, int64_t row) const;

  // `terms`, where given, becomes the root of the sum of the squared norms of what was added up:
  // scale P_ij k_j times dP_ij, each product in dP_ij, and delta_i apart for dQ, the like over rows
  // for dK, P_ij dout_i for dV. Rounding errors are in proportion to it, also where terms cancel or
  // a softcap saturates. Of kExact only.
  std::vector<double> DQ(int64_t q_head, int64_t row,
                         double* terms = nullptr) const;  // [qk_head_dim]; row prepared
  std::vector<double> DK(int64_t kv_head, int64_t key,
                         double* terms = nullptr) const;  // [qk_head_dim]; its rows prepared
  std::vector<double> DV(int64_t kv_head, int64_t key,
                         double* terms = nullptr) const;  // [v_head_dim]; its rows prepared

 private:
  size_t Index(int64_t q_head, int64_t row) const;  // in lse_ and delta_

  const Problem& problem_;
  ReferenceInputs inputs_;
  Precision precision_;
  std::vector<double> lse_;    // [q_heads, q_tokens]
  std::vector<double> delta_;  // [q_heads, q_tokens]
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_REFERENCE_H_
