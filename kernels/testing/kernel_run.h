// Runs a kernel on a small problem for a test: inputs, memory full of NaN for everything that the
// kernel has to write, and what it wrote.

#ifndef LCAB_KERNELS_TESTING_KERNEL_RUN_H_
#define LCAB_KERNELS_TESTING_KERNEL_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/parameters.h"
#include "attention/problem.h"
#include "device/device.h"
#include "kernels/kernel.h"

namespace lcab {

// Inputs of a problem as fp32, contiguous [tokens, heads, dim]; values of the problem's dtype.
struct KernelInputs {
  std::vector<float> q, k, v, dout;

  // Every element in N(0, 1), the same for the same seed.
  static KernelInputs Random(const Problem& problem, uint64_t seed);
};

// Outputs likewise; LSE is [q_heads, q_tokens]. Empty where the pass did not run.
struct KernelOutputs {
  std::vector<float> out, lse, dq, dk, dv;
};

struct KernelRunOptions {
  bool backward = true;
  Options kernel_options;
  // Of outputs and gradients; the problem's where not given.
  std::optional<DType> output_dtype;
  // Whose out and LSE the backward pass is given in place of its own: so that errors do not add up.
  const KernelOutputs* forward = nullptr;
  // Elements between the rows of tensors, beyond what they need; filled with NaN, and checked to
  // still hold it.
  int64_t padding = 0;
  // The backward pass adds to gradients that hold this value already.
  std::optional<float> accumulate_on;
};

// Both passes (LSE and out of the forward pass feed the backward one, which is given out or delta,
// whichever it wants; delta is computed here in fp64). Adds a test failure where an input changed
// or padding was written.
KernelOutputs RunKernel(const Kernel& kernel, const Problem& problem, const KernelInputs& inputs,
                        Device& device, const KernelRunOptions& options = {});

// The truth in fp64, from attention/reference.h, rounded to fp32.
KernelOutputs ReferenceOutputs(const Problem& problem, const KernelInputs& inputs,
                               bool backward = true);

// The kernel of BuiltinKernels() with that name; ends the test program where there is none.
const Kernel& BuiltinKernel(std::string_view name);

// Adds a test failure unless every row of every tensor of `actual` is near that of `expected`: the
// error's norm is at most `tolerance` times the larger of the row's norm and the tensor's root mean
// square row norm, plus 3e-5 (what cancelling leaves of fp32 terms of inputs near 1). LSE differs
// by at most 5e-6 (1 + |LSE|). Infinities must match, and NaN is never near.
void ExpectNear(const KernelOutputs& actual, const KernelOutputs& expected, const Problem& problem,
                double tolerance, const std::string& what);

}  // namespace lcab

#endif  // LCAB_KERNELS_TESTING_KERNEL_RUN_H_
