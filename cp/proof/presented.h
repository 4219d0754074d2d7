// Which pairs a partial result has seen: the sets that the proof calculates with.

#ifndef LCAB_CP_PROOF_PRESENTED_H_
#define LCAB_CP_PROOF_PRESENTED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attention/problem.h"
#include "attention/tokens.h"

namespace lcab::cp::proof {

// Sorted, disjoint, non-adjacent, non-empty intervals of tokens.
using Tokens = std::vector<Interval>;

Tokens TokensOf(const TokenSet& tokens);
Tokens Union(const Tokens& a, const Tokens& b);
Tokens Intersection(const Tokens& a, const Tokens& b);
std::string ToText(const Tokens& tokens);

// The tokens of the other side that a result has been presented, by query head: queries for dK and
// dV, keys for the rest. Ranges of heads are sorted and disjoint.
struct Presented {
  struct Part {
    Interval q_heads;
    Tokens tokens;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;

  friend bool operator==(const Presented&, const Presented&) = default;
};

// Only what concerns these query heads.
Presented Restrict(const Presented& presented, Interval q_heads);

// Allowed pairs of a query head with these queries and keys.
int64_t PairsOf(const Problem& problem, int64_t q_head, const Tokens& queries, const Tokens& keys);

// The first query head at which two presentations share an allowed pair with `own` tokens (queries
// when `own_is_query`, else keys): -1 when there is none, so that they may be summed.
int64_t HeadPresentedTwice(const Problem& problem, const Tokens& own, bool own_is_query,
                           const Presented& a, const Presented& b);
Presented Union(const Presented& a, const Presented& b);

// The first of `q_heads` for which some allowed pair of `own` has not been presented; -1: complete.
int64_t HeadNotComplete(const Problem& problem, const Tokens& own, bool own_is_query,
                        Interval q_heads, const Presented& presented);

}  // namespace lcab::cp::proof

#endif  // LCAB_CP_PROOF_PRESENTED_H_
