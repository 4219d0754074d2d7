// From a strategy's steps to plans: derives what each step waits for, and where buffers lie.
//
// A strategy describes each rank as a RankSchedule, which declares the rank's buffers once and then
// emits its steps round by round in program order: the order in which one stream could run them
// all. BuildPlans() collects them. Whoever wants the steps without holding thousands of ranks'
// plans calls EmitRound() with a sink of its own.

#ifndef LCAB_CP_BUILDER_H_
#define LCAB_CP_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cp/plan.h"

namespace lcab::cp {

class StepSink {
 public:
  virtual ~StepSink() = default;
  virtual void Emit(StreamIndex stream, Action action) = 0;
};

class RankSchedule {
 public:
  virtual ~RankSchedule() = default;

  // Everything of the plan but its steps, offsets and slab.
  virtual const RankPlan& frame() const = 0;
  // The same number on every rank.
  virtual int Rounds(Pass pass) const = 0;
  virtual void EmitRound(Pass pass, int round, StepSink& sink) const = 0;
};

// The plan of one rank: `after` from conflicts of reads and writes, memory by liveness. Buffers
// that no step and no holding uses lose their rows.
RankPlan BuildPlan(const RankSchedule& schedule, bool backward);

// One plan a rank.
std::vector<RankPlan> BuildPlans(
    int ranks, bool backward,
    const std::function<std::unique_ptr<RankSchedule>(int rank)>& make_schedule);

// Declaring buffers and naming their parts.

// Adds a buffer to the frame and gives its index.
int Declare(RankPlan& frame, Buffer buffer);
// fp32 [heads, rows] for LSE or delta.
int DeclareRowStat(RankPlan& frame, std::string name, int64_t rows, int64_t heads, BufferRole role);
View All(const RankPlan& frame, int buffer);
// Rows and heads of a buffer; an empty interval gives a view with no runs there.
View Part(int buffer, Interval rows, Interval heads);
// All heads of the rows.
View RowsPart(const RankPlan& frame, int buffer, Interval rows);
// Adds a message unless the view is empty.
void AddMessage(std::vector<Message>& messages, int peer, View view);

}  // namespace lcab::cp

#endif  // LCAB_CP_BUILDER_H_
