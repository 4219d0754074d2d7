// The scales and soft caps that are computed. Outside of them no kernel that works in fp32 can be
// right, so that measuring one says nothing.
//
// A logit x = scale * q.k is rounded by some 2^-24 of what its sum of head_dim products adds, and
// softmax turns that absolute error, which grows with |x|, into a relative one of its weights. With
// elements of order 1 |x| reaches 1e5 at a scale of 1e3, where an error is of order 0.01 to 0.1;
// with ten times that no digit of a weight is left. Under scales below 1e-6 all keys weigh the
// same, as under 0, and gradients of Q and K vanish beside everything else.
//
// A soft cap c must be a number of fp32, and its gradient 1 - tanh(x/c)^2 a difference of which
// something is left: below 1e-3 it is 0 in all but a few places. Above 1e4 a cap is beyond what
// logits reach, and does nothing.

#ifndef LCAB_ATTENTION_SOFTMAX_RANGE_H_
#define LCAB_ATTENTION_SOFTMAX_RANGE_H_

#include "absl/status/status.h"
#include "attention/problem.h"

namespace lcab {

// Of |scale|; 0 is well, too: all keys weigh the same.
inline constexpr double kLeastScale = 1e-6;
inline constexpr double kMostScale = 1e3;

// Of a soft cap other than 0, which is none.
inline constexpr double kLeastSoftcap = 1e-3;
inline constexpr double kMostSoftcap = 1e4;

// InvalidArgument says which of the two lies outside, and why that is refused.
absl::Status Validate(const Softmax& softmax);

}  // namespace lcab

#endif  // LCAB_ATTENTION_SOFTMAX_RANGE_H_
