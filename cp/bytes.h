// The bytes that a rank sends, by strategy: closed forms that know nothing of plans. The tables in
// docs/strategies.md show the same formulas.
//
// All count the payload of one layer, batch 1, sent to other ranks by `rank` of `ranks` in one
// pass. K and V, and Q and out, have head dims of their own; partial results and gradients that
// are still to be summed travel in fp32; tokens are shared as evenly as can be, the first ranks
// having one more.

#ifndef LCAB_CP_BYTES_H_
#define LCAB_CP_BYTES_H_

#include <cstdint>

#include "attention/problem.h"

namespace lcab::cp {

// Ring attention (Liu et al., arXiv 2310.01889), contiguous or zigzag. Forward: K and V move P-1
// hops. Backward: again, and their fp32 gradients P hops, the last one home.
int64_t RingBytesSent(const Problem& problem, int ranks, int rank, Pass pass);

// Gathering K and V before attention (Llama 3, arXiv 2407.21783). Forward: own K and V to all
// others. Backward: again, and the fp32 gradient of every other rank's K and V to its owner.
int64_t AllGatherBytesSent(const Problem& problem, int ranks, int rank, Pass pass);

// Ulysses (Jacobs et al., arXiv 2309.14509): all-to-alls between shards of tokens and of heads,
// with max(kv_heads, ranks) kv heads, replicated where ranks outnumber them. Gradients travel in
// the problem's dtype, but those of replicated kv heads in fp32.
int64_t UlyssesBytesSent(const Problem& problem, int ranks, int rank, Pass pass);

}  // namespace lcab::cp

#endif  // LCAB_CP_BYTES_H_
