#include "measurement/head_inputs.h"

#include <algorithm>
#include <memory>

#include "attention/mask.h"
#include "attention/tokens.h"

namespace lcab::measurement {
namespace {

constexpr int64_t kRowsOfPart = 256;

void Make(const InputSource& source, Tensor tensor, int64_t tokens, int64_t first_head,
          int64_t heads, int64_t dim, const ParallelFor& parallel_for, std::vector<float>* values) {
  values->resize(static_cast<size_t>(tokens * heads * dim));
  parallel_for((tokens + kRowsOfPart - 1) / kRowsOfPart, [&](int64_t part) {
    const int64_t end = std::min(tokens, (part + 1) * kRowsOfPart);
    for (int64_t token = part * kRowsOfPart; token < end; ++token) {
      for (int64_t head = 0; head < heads; ++head) {
        InputRow(source, tensor, token, first_head + head, dim,
                 values->data() + (token * heads + head) * dim);
      }
    }
  });
}

}  // namespace

HeadInputs MakeHeadInputs(const Problem& problem, Pass pass, const InputSource& source,
                          int64_t kv_head, const ParallelFor& parallel_for) {
  HeadInputs inputs;
  inputs.problem = problem;
  inputs.problem.q_heads = problem.heads_per_kv();
  inputs.problem.kv_heads = 1;
  if (problem.mask->groups() > 1) {
    inputs.problem.mask = std::make_shared<const Mask>(
        problem.mask->Restrict(TokenSet::Range(0, problem.q_tokens()),
                               TokenSet::Range(0, problem.k_tokens()), {kv_head, kv_head + 1}));
  }
  const int64_t group = problem.heads_per_kv();
  const int64_t q_head = kv_head * group;
  Make(source, Tensor::kQ, problem.q_tokens(), q_head, group, problem.qk_head_dim, parallel_for,
       &inputs.q);
  Make(source, Tensor::kK, problem.k_tokens(), kv_head, 1, problem.qk_head_dim, parallel_for,
       &inputs.k);
  Make(source, Tensor::kV, problem.k_tokens(), kv_head, 1, problem.v_head_dim, parallel_for,
       &inputs.v);
  if (pass == Pass::kBackward) {
    Make(source, Tensor::kDOut, problem.q_tokens(), q_head, group, problem.v_head_dim, parallel_for,
         &inputs.dout);
  }
  return inputs;
}

int64_t HeadInputsBytes(const Problem& problem, Pass pass) {
  const int64_t rows = problem.q_tokens() * problem.heads_per_kv();
  int64_t elements =
      rows * problem.qk_head_dim + problem.k_tokens() * (problem.qk_head_dim + problem.v_head_dim);
  if (pass == Pass::kBackward) elements += rows * problem.v_head_dim;
  return elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace lcab::measurement
