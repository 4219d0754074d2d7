// For tests: small problems with their inputs.

#ifndef LCAB_ATTENTION_MADE_TENSORS_FOR_TEST_H_
#define LCAB_ATTENTION_MADE_TENSORS_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "attention/inputs.h"
#include "attention/problem.h"
#include "attention/reference.h"

namespace lcab {

// Inputs of a whole problem, to be changed by tests.
struct Tensors {
  std::vector<float> q, k, v, dout, dlse;

  static Tensors Random(const Problem& problem, uint64_t seed = 1) {
    const InputSource source{seed, 0, Distribution::kNormal, problem.dtype, problem.heads_per_kv()};
    const auto fill = [&](Tensor tensor) {
      const Problem::Extent extent = problem.ExtentOf(tensor);
      std::vector<float> values(static_cast<size_t>(extent.tokens * extent.heads * extent.dim));
      float* at = values.data();
      for (int64_t token = 0; token < extent.tokens; ++token) {
        for (int64_t head = 0; head < extent.heads; ++head, at += extent.dim) {
          InputRow(source, tensor, token, head, extent.dim, at);
        }
      }
      return values;
    };
    return {fill(Tensor::kQ), fill(Tensor::kK), fill(Tensor::kV), fill(Tensor::kDOut),
            fill(Tensor::kDLse)};
  }
  ReferenceInputs inputs() const { return {q, k, v, dout, dlse}; }
};

inline std::shared_ptr<const Mask> Share(absl::StatusOr<Mask> mask) {
  return std::make_shared<const Mask>(std::move(mask).value());
}
inline std::shared_ptr<const Mask> SliceMask(int64_t q_tokens, int64_t k_tokens,
                                             std::vector<Slice> slices) {
  return Share(Mask::FromSlices(q_tokens, k_tokens, slices));
}

inline Problem MakeProblem(std::shared_ptr<const Mask> mask, int64_t q_heads, int64_t kv_heads,
                           int64_t qk_head_dim, int64_t v_head_dim) {
  return {.q_heads = q_heads,
          .kv_heads = kv_heads,
          .qk_head_dim = qk_head_dim,
          .v_head_dim = v_head_dim,
          .dtype = DType::kFloat32,
          .mask = std::move(mask)};
}

inline Reference Prepared(const Problem& problem, const Tensors& tensors,
                          Precision precision = Precision::kExact) {
  Reference reference(problem, tensors.inputs(), precision);
  for (int64_t head = 0; head < problem.q_heads; ++head) {
    reference.PrepareRows(head, {0, problem.q_tokens()});
  }
  return reference;
}

}  // namespace lcab

#endif  // LCAB_ATTENTION_MADE_TENSORS_FOR_TEST_H_
