// The proof that plans are right, before anything runs: a symbolic execution of all ranks' plans.
//
// Checked: every allowed (query, key, head) is attended exactly once in each pass with the right
// operands; every contribution to out, LSE, dQ, dK and dV reaches its owner once; exchanges match
// in peers, order, size and content; nothing is read before it is written or overwritten under a
// reader on another stream; no deadlock, also with all streams collapsed to one; bytes equal the
// strategy's formula; peak memory known. It shares no code with strategies or the plan builder.

#ifndef LCAB_CP_PROVE_H_
#define LCAB_CP_PROVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cp/plan.h"

namespace lcab::cp {

struct RankFacts {
  int64_t area = 0;  // pairs that the rank computes in forward, summed over its query heads
  int64_t forward_bytes_sent = 0;
  int64_t backward_bytes_sent = 0;
  int64_t peak_bytes = 0;
};

struct Proof {
  std::vector<RankFacts> ranks;
  uint64_t digest = 0;
};

// `bytes_sent(rank, pass)` is the strategy's formula. FailedPrecondition says what is broken: pass,
// rank, step, and tokens or bytes concerned.
absl::StatusOr<Proof> Prove(const std::vector<RankPlan>& plans,
                            const std::function<int64_t(int rank, Pass pass)>& bytes_sent);

}  // namespace lcab::cp

#endif  // LCAB_CP_PROVE_H_
