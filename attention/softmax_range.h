// The scales and soft caps that are computed. Outside of them no kernel that works in fp32 can be
// right, so that measuring one says nothing.
//
// A logit x = scale * q.k carries a relative rounding of about 2^-24 times what its sum of head_dim
// products adds; softmax turns the absolute error, which grows with |x|, into a relative one of its
// weights. With elements of order 1, |x| is of order scale * sqrt(head_dim), and 1 is the scale of
// a head dim of 1: larger ones leave weights that are mostly rounding. Smaller scales than 1e-6
// leave gradients of Q and K that vanish beside everything else.
//
// Under a soft cap c the gradient is 1 - tanh(x/c)^2. Where |x| is far above c that is a difference
// of equal numbers, of which fp32 keeps no digit; and c itself must be a number of fp32. A cap
// above 1e4 is beyond any logit, and does nothing.

#ifndef LCAB_ATTENTION_SOFTMAX_RANGE_H_
#define LCAB_ATTENTION_SOFTMAX_RANGE_H_

#include "absl/status/status.h"
#include "attention/problem.h"

namespace lcab {

// Of |scale|; 0 is well, too: all keys weigh the same.
inline constexpr double kLeastScale = 1e-6;
inline constexpr double kMostScale = 1;

// Of a soft cap other than 0, which is none.
inline constexpr double kLeastSoftcap = 0.5;
inline constexpr double kMostSoftcap = 1e4;

// InvalidArgument says which of the two lies outside, and why that is refused.
absl::Status Validate(const Softmax& softmax);

}  // namespace lcab

#endif  // LCAB_ATTENTION_SOFTMAX_RANGE_H_
