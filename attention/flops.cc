// Work of a problem in closed form.

#include "attention/flops.h"

namespace lcab {

int64_t TotalArea(const Problem& problem) {
  int64_t total = 0;
  for (int64_t head = 0; head < problem.kv_heads; ++head) {
    total += problem.mask->Area(problem.mask->GroupOf(head)) * problem.heads_per_kv();
  }
  return total;
}

int64_t Flops(const Problem& problem, Pass pass) {
  return Flops(TotalArea(problem), problem.qk_head_dim, problem.v_head_dim, pass);
}

int64_t Flops(int64_t total_area, int64_t qk_head_dim, int64_t v_head_dim, Pass pass) {
  const int64_t products =
      pass == Pass::kForward ? qk_head_dim + v_head_dim : 3 * qk_head_dim + 2 * v_head_dim;
  return 2 * total_area * products;
}

}  // namespace lcab
