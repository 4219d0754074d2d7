#include "cp/bytes.h"

#include <algorithm>

namespace lcab::cp {
namespace {

constexpr int64_t kFloat32 = 4;

// Tokens of rank `rank`.
int64_t TokensOf(int64_t tokens, int ranks, int rank) {
  return tokens / ranks + (rank < tokens % ranks ? 1 : 0);
}

// Elements of one token's K and V, over all kv heads.
int64_t KvElements(const Problem& problem) {
  return problem.kv_heads * (problem.qk_head_dim + problem.v_head_dim);
}

}  // namespace

int64_t RingBytesSent(const Problem& problem, int ranks, int rank, Pass pass) {
  if (ranks == 1) return 0;
  const int64_t tokens = problem.k_tokens();
  // A rank passes on every shard but the one that its successor began with.
  const int64_t passed_on = tokens - TokensOf(tokens, ranks, (rank + 1) % ranks);
  const int64_t kv = passed_on * KvElements(problem) * SizeOf(problem.dtype);
  if (pass == Pass::kForward) return kv;
  return kv + tokens * KvElements(problem) * kFloat32;
}

int64_t AllGatherBytesSent(const Problem& problem, int ranks, int rank, Pass pass) {
  const int64_t own = TokensOf(problem.k_tokens(), ranks, rank);
  const int64_t kv = (ranks - 1) * own * KvElements(problem) * SizeOf(problem.dtype);
  if (pass == Pass::kForward) return kv;
  return kv + (problem.k_tokens() - own) * KvElements(problem) * kFloat32;
}

int64_t UlyssesBytesSent(const Problem& problem, int ranks, int rank, Pass pass) {
  const int64_t q_own = TokensOf(problem.q_tokens(), ranks, rank);
  const int64_t k_own = TokensOf(problem.k_tokens(), ranks, rank);
  const int64_t q_other = problem.q_tokens() - q_own;
  const int64_t k_other = problem.k_tokens() - k_own;
  const int64_t q_heads = problem.q_heads / ranks;  // of a rank
  const int64_t kv_heads = std::max<int64_t>(problem.kv_heads, ranks) / ranks;
  const int64_t qk = problem.qk_head_dim, v = problem.v_head_dim;
  const int64_t element = SizeOf(problem.dtype);
  if (pass == Pass::kForward) {
    const int64_t to_heads = q_own * q_heads * qk + k_own * kv_heads * (qk + v);
    const int64_t to_tokens = q_other * q_heads * v;
    return ((ranks - 1) * to_heads + to_tokens) * element;
  }
  const int64_t kv_gradient = problem.kv_heads < ranks ? kFloat32 : element;
  return (ranks - 1) * q_own * q_heads * v * element + q_other * q_heads * qk * element +
         k_other * kv_heads * (qk + v) * kv_gradient;
}

}  // namespace lcab::cp
