// Values of the input tensors, from a counter-based generator: any element can be made alone, on
// any rank, on CPU or GPU, bit for bit, and already is a value of the problem's dtype.

#ifndef LCAB_ATTENTION_INPUTS_H_
#define LCAB_ATTENTION_INPUTS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "attention/problem.h"

namespace lcab {

enum class Distribution {
  kNormal,       // near N(0, 1): a sum of three uniform integers (Irwin-Hall), within (-3, 3)
  kHeavyTailed,  // the same, with one channel in 16 of each head times 2^3..2^5, as activations
                 // have them
  kLargeRows,    // the same, with one row in 64 of each head times 2^4
  kCorrelated,   // K correlated with Q, so that softmax is peaked: k_j = q_j / 2 + noise
};
std::string_view Name(Distribution distribution);
std::optional<Distribution> ParseDistribution(std::string_view name);

// Everything that an element depends on, besides its place.
struct InputSource {
  uint64_t seed = 0;
  uint32_t generation = 0;  // raised when inputs change in mid-trial
  Distribution distribution = Distribution::kNormal;
  DType dtype = DType::kFloat32;
  int64_t heads_per_kv = 1;  // for kCorrelated: the first query head of the kv head's group

  friend bool operator==(const InputSource&, const InputSource&) = default;
};

// Element (token, head, channel) of Q, K, V, dOut or dLSE (channel 0). Exactly representable in
// the dtype. Tokens below 2^40, heads and channels below 2^16. (input_values.h has the arithmetic,
// for devices.)
float InputElement(const InputSource& source, Tensor tensor, int64_t token, int64_t head,
                   int64_t channel);

// Row (token, head) at once: channels [0, dim) to out[0 .. dim). The same values as
// InputElement(), faster.
void InputRow(const InputSource& source, Tensor tensor, int64_t token, int64_t head, int64_t dim,
              float* out);

}  // namespace lcab

#endif  // LCAB_ATTENTION_INPUTS_H_
