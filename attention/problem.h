// What is computed: operator, heads, head dims, dtype and mask. Batch is 1; sequences are packed
// and the mask keeps them apart.

#ifndef LCAB_ATTENTION_PROBLEM_H_
#define LCAB_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "attention/dtype.h"
#include "attention/mask.h"

namespace lcab {

enum class Pass { kForward, kBackward };
constexpr std::string_view Name(Pass pass) {
  return pass == Pass::kForward ? "forward" : "backward";
}

// out_i = sum_j softmax_j(f(scale * q_i . k_j)) v_j over the keys that the mask allows row i, with
// f(x) = softcap * tanh(x / softcap), or x when softcap is 0. LSE is the natural logarithm of the
// sum of exponentials. A row without keys has out 0, LSE -inf and no gradients.
struct Softmax {
  std::optional<double> scale;  // default 1 / sqrt(qk_head_dim)
  double softcap = 0;           // 0: none

  friend bool operator==(const Softmax&, const Softmax&) = default;
};

// Later operators (gated linear, compressive memory) become further alternatives.
using Operator = std::variant<Softmax>;

// The tensors of an operator, by role. [tokens, heads, dim], but LSE and delta [heads, tokens].
enum class Tensor { kQ, kK, kV, kOut, kLse, kDOut, kDLse, kDelta, kDQ, kDK, kDV };
std::string_view Name(Tensor tensor);  // "Q", "K", "V", "out", "LSE", "dOut", ...

struct Problem {
  Operator op = Softmax{};
  int64_t q_heads = 1;
  int64_t kv_heads = 1;  // divides q_heads; query head h uses kv head h / (q_heads / kv_heads)
  int64_t qk_head_dim = 64;
  int64_t v_head_dim = 64;
  DType dtype = DType::kFloat32;
  std::shared_ptr<const Mask> mask;  // its groups: 1 or kv_heads

  int64_t q_tokens() const { return mask->q_tokens(); }
  int64_t k_tokens() const { return mask->k_tokens(); }
  int64_t heads_per_kv() const { return q_heads / kv_heads; }
  int64_t KvHeadOf(int64_t q_head) const { return q_head / heads_per_kv(); }
  int64_t MaskGroupOf(int64_t q_head) const { return mask->GroupOf(KvHeadOf(q_head)); }
  // The softmax scale: given, or 1 / sqrt(qk_head_dim).
  double Scale() const;
  double Softcap() const { return std::get<Softmax>(op).softcap; }

  // Rows, heads and dim of a tensor (dim 1 for LSE, dLSE and delta).
  struct Extent {
    int64_t tokens = 0, heads = 0, dim = 0;
  };
  Extent ExtentOf(Tensor tensor) const;
};

// InvalidArgument with what is wrong and what would be right: heads outside 1..65536 or not
// divisible, dims outside 1..1024, mask groups that fit no head count, FLOPs beyond int64.
absl::Status Validate(const Problem& problem);

}  // namespace lcab

#endif  // LCAB_ATTENTION_PROBLEM_H_
