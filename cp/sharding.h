// How a sequence is shared among ranks: for each rank, the tokens it owns.
//
// Every rule here gives rank r of P exactly floor(N / P) tokens, and one more when r < N mod P, so
// that the byte formulas (bytes.h) need to know nothing else of it.

#ifndef LCAB_CP_SHARDING_H_
#define LCAB_CP_SHARDING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attention/mask.h"
#include "attention/tokens.h"

namespace lcab::cp {

// Rank r owns one range of tokens; ranges in order of rank. Idles half the work of a causal ring.
std::vector<TokenSet> ShardContiguous(int64_t tokens, int ranks);

// Each document of `lengths` is cut into 2P chunks, as even as can be; rank r owns chunks r and
// 2P-1-r of each, in order of document: equal area under causal masks. What a document's length
// leaves over P goes to the ranks that are furthest behind. One document: zigzag per sequence.
std::vector<TokenSet> ShardZigzag(std::span<const int64_t> lengths, int ranks);

// The finest cut of queries and keys into documents that no pair of the mask crosses, in order;
// both lists have the same number of documents, and add up to the mask's tokens. Tokens that take
// part in nothing join the document before them (or the first).
struct Documents {
  std::vector<int64_t> q_lengths, k_lengths;
};
Documents FindDocuments(const Mask& mask);

}  // namespace lcab::cp

#endif  // LCAB_CP_SHARDING_H_
