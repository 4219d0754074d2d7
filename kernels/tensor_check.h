// Checks that tensors given to a kernel are those of its problem, before any is read.

#ifndef LCAB_KERNELS_TENSOR_CHECK_H_
#define LCAB_KERNELS_TENSOR_CHECK_H_

#include "absl/status/status.h"
#include "attention/problem.h"
#include "kernels/kernel.h"

namespace lcab {

// InvalidArgument names the first tensor whose extent, type or address does not fit, and what
// would. Gradients and out may be fp32 whatever the problem's dtype where the traits say so;
// `accumulate` needs that. Exactly one of out and delta is read in the backward pass: the one that
// the kernel wants must be there.
absl::Status CheckTensors(const Problem& problem, const Traits& traits,
                          const ForwardTensors& tensors);
absl::Status CheckTensors(const Problem& problem, const Traits& traits,
                          const BackwardTensors& tensors);

}  // namespace lcab

#endif  // LCAB_KERNELS_TENSOR_CHECK_H_
