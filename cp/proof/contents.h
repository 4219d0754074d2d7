// What a rank's buffers hold, symbolically: which tensor, which tokens and heads, and for results
// which pairs they have been presented.

#ifndef LCAB_CP_PROOF_CONTENTS_H_
#define LCAB_CP_PROOF_CONTENTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/problem.h"
#include "attention/tokens.h"
#include "cp/plan.h"
#include "cp/proof/presented.h"

namespace lcab::cp::proof {

struct Value {
  enum class Kind {
    kConstant,  // `constant` in every element
    kInput,     // Q, K, V or dOut
    kDelta,
    kResult,  // out, LSE, dQ, dK or dV of the pairs in `presented`
  };
  Kind kind = Kind::kConstant;
  float constant = 0;
  Tensor tensor = Tensor::kQ;
  int problem = 0;
  TokenSet tokens;  // of the rows
  Interval heads;   // of the problem
  Presented presented;

  friend bool operator==(const Value&, const Value&) = default;
};
std::string ToText(const Value& value);

// The query heads that share a tensor's heads: themselves, or the groups of kv heads.
Interval QueryHeadsOf(const Problem& problem, Tensor tensor, Interval heads);
// Whether a tensor's tokens are queries; else keys.
bool IsByQuery(Tensor tensor);

// A rectangle of a view, in the view's own rows and heads, that holds one value.
struct Piece {
  Interval rows, heads;
  Value value;
};

// Two views' pieces cut against each other.
struct PiecePair {
  Piece a, b;
};
// The views have equal rows and heads.
std::vector<PiecePair> Pair(const RankPlan& plan, const std::vector<Piece>& a,
                            const std::vector<Piece>& b);

class Contents {
 public:
  // The plan must outlive this.
  explicit Contents(const RankPlan& plan);

  // What a view holds, in any order of pieces. FailedPrecondition when part of it was never
  // written, or has been overwritten through another buffer in the same memory.
  absl::StatusOr<std::vector<Piece>> Read(const View& view) const;
  // Overwrites the view; pieces cover it.
  void Write(const View& view, const std::vector<Piece>& pieces);
  // Forgets what the buffer holds.
  void Clear(int buffer) { cells_[static_cast<size_t>(buffer)].clear(); }

 private:
  // The same in rows and heads of a buffer.
  using Cell = Piece;

  void Erase(int buffer, Interval rows, Interval heads);

  const RankPlan& plan_;
  std::vector<std::vector<Cell>> cells_;       // by buffer; disjoint
  std::vector<std::vector<int>> same_memory_;  // by buffer: the others that share bytes with it
};

}  // namespace lcab::cp::proof

#endif  // LCAB_CP_PROOF_CONTENTS_H_
