// One kv head with the query heads of its group, as a problem of its own: what the fp64 checks work
// on, so that they never hold a whole problem's inputs.

#ifndef LCAB_MEASUREMENT_HEAD_INPUTS_H_
#define LCAB_MEASUREMENT_HEAD_INPUTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "attention/inputs.h"
#include "attention/problem.h"

namespace lcab::measurement {

// How loops are shared among threads: body(part) for part in [0, parts), in any order.
using ParallelFor =
    std::function<void(int64_t parts, const std::function<void(int64_t part)>& body)>;

struct HeadInputs {
  Problem problem;          // q_heads: the group's size; kv_heads: 1
  std::vector<float> q;     // [q_tokens, q_heads, qk_head_dim]
  std::vector<float> k;     // [k_tokens, 1, qk_head_dim]
  std::vector<float> v;     // [k_tokens, 1, v_head_dim]
  std::vector<float> dout;  // [q_tokens, q_heads, v_head_dim]; empty for the forward pass
};

// Inputs as the generator gives them to the kernel.
HeadInputs MakeHeadInputs(const Problem& problem, Pass pass, const InputSource& source,
                          int64_t kv_head, const ParallelFor& parallel_for);

// Bytes of host memory that one head's inputs take.
int64_t HeadInputsBytes(const Problem& problem, Pass pass);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_HEAD_INPUTS_H_
