// Runs one rank's steps on symbolic contents, and says which of them is wrong.

#ifndef LCAB_CP_PROOF_INTERPRETER_H_
#define LCAB_CP_PROOF_INTERPRETER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cp/plan.h"
#include "cp/proof/contents.h"

namespace lcab::cp::proof {

// All failures are FailedPrecondition and say what is wrong with the operands; the caller adds the
// place. Steps run in program order; order.h holds that no other order differs.
class Interpreter {
 public:
  // The plan must outlive this, and have passed CheckStructure().
  explicit Interpreter(const RankPlan& plan) : plan_(plan), contents_(plan) {}

  // Sets inputs before the forward pass; forgets what does not last from one pass to the next.
  void Begin(Pass pass);
  // Any action but Exchange.
  absl::Status Run(const Action& action);
  // The two sides of a message.
  absl::StatusOr<std::vector<Piece>> Read(const View& view) const { return contents_.Read(view); }
  absl::Status Store(const View& view, const std::vector<Piece>& pieces);
  // Declared outputs of the pass: right tensor, tokens and heads, complete.
  absl::Status CheckOutputs(Pass pass) const;

  // Allowed pairs that Attend steps have computed, summed over query heads.
  int64_t area() const { return area_; }

 private:
  absl::Status Do(const Attend& a);
  absl::Status Do(const AttendBackward& a);
  absl::Status Do(const Delta& a);
  absl::Status Do(const Merge& a);
  absl::Status Do(const Add& a);
  absl::Status Do(const Copy& a);
  absl::Status Do(const Fill& a);
  absl::Status Do(const Exchange& a);

  // The view holds this input in exactly these tokens and heads.
  absl::Status ExpectInput(const View& view, Tensor tensor, int problem, const TokenSet& tokens,
                           Interval heads) const;
  // The same for delta, or for a result that is complete.
  absl::Status ExpectComplete(const View& view, Tensor tensor, int problem, const TokenSet& tokens,
                              Interval heads) const;
  absl::Status Expect(const View& view, Value::Kind kind, Tensor tensor, int problem,
                      const TokenSet& tokens, Interval heads, bool complete) const;
  // FailedPrecondition unless every allowed pair has been presented.
  absl::Status CheckComplete(const Value& value) const;
  // The sum of two values that may be summed.
  absl::StatusOr<Value> Sum(const Value& a, const Value& b) const;

  const Problem& ProblemAt(int index) const { return plan_.problems[static_cast<size_t>(index)]; }

  const RankPlan& plan_;
  Contents contents_;
  Pass pass_ = Pass::kForward;
  int64_t area_ = 0;
};

}  // namespace lcab::cp::proof

#endif  // LCAB_CP_PROOF_INTERPRETER_H_
