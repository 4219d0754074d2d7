// Exact work of a problem: areas and floating-point operations as integers.
//
// With area = allowed (query, key) pairs summed over query heads, and counting a multiply and an
// add as two: forward = 2 * area * (Dqk + Dv) for Q K^T and P V; backward =
// 2 * area * (3 * Dqk + 2 * Dv) for S, dP, dV, dQ and dK.

#ifndef LCAB_ATTENTION_FLOPS_H_
#define LCAB_ATTENTION_FLOPS_H_

#include <cstdint>

#include "attention/problem.h"

namespace lcab {

// Allowed pairs summed over all query heads. `TotalArea(problem) / q_heads` is the area of one
// head when the mask has one group. Like the FLOPs below, it fits where Validate(problem) passes.
int64_t TotalArea(const Problem& problem);

int64_t Flops(const Problem& problem, Pass pass);
// The same for an area (summed over query heads) counted elsewhere.
int64_t Flops(int64_t total_area, int64_t qk_head_dim, int64_t v_head_dim, Pass pass);

}  // namespace lcab

#endif  // LCAB_ATTENTION_FLOPS_H_
