#include "cp/strategies/single_schedule.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cp/builder.h"

namespace lcab::cp {
namespace {

class SingleSchedule : public RankSchedule {
 public:
  explicit SingleSchedule(const PlanRequest& request) {
    const Problem& p = request.problem;
    frame_.problems = {p};
    const View q = Hold(frame_.inputs, p, Tensor::kQ, "q", BufferRole::kIn);
    const View k = Hold(frame_.inputs, p, Tensor::kK, "k", BufferRole::kIn);
    const View v = Hold(frame_.inputs, p, Tensor::kV, "v", BufferRole::kIn);
    const View out = Hold(frame_.forward_outputs, p, Tensor::kOut, "out", BufferRole::kOut);
    const View lse = Hold(frame_.forward_outputs, p, Tensor::kLse, "lse", BufferRole::kOut);
    const AttendTarget target{.problem = 0,
                              .q_tokens = TokenSet::Range(0, p.q_tokens()),
                              .k_tokens = TokenSet::Range(0, p.k_tokens()),
                              .q_heads = {0, p.q_heads},
                              .kv_heads = {0, p.kv_heads}};
    forward_.push_back(Attend{target, q, k, v, out, lse});
    if (!request.backward) return;

    const View dout = Hold(frame_.inputs, p, Tensor::kDOut, "dout", BufferRole::kIn);
    const View dq = Hold(frame_.backward_outputs, p, Tensor::kDQ, "dq", BufferRole::kOut);
    const View dk = Hold(frame_.backward_outputs, p, Tensor::kDK, "dk", BufferRole::kOut);
    const View dv = Hold(frame_.backward_outputs, p, Tensor::kDV, "dv", BufferRole::kOut);
    AttendBackward backward{.target = target, .q = q, .k = k, .v = v, .dout = dout, .lse = lse};
    if (request.kernel.wants_delta) {
      backward.delta =
          All(frame_, DeclareRowStat(frame_, "delta", p.q_tokens(), p.q_heads, BufferRole::kTemp));
      backward_.push_back(Delta{.out = out, .dout = dout, .delta = backward.delta});
    } else {
      backward.out = out;
    }
    backward.dq = dq;
    backward.dk = dk;
    backward.dv = dv;
    backward_.push_back(std::move(backward));
  }

  const RankPlan& frame() const override { return frame_; }
  int Rounds(Pass) const override { return 1; }
  void EmitRound(Pass pass, int, StepSink& sink) const override {
    for (const Action& action : pass == Pass::kForward ? forward_ : backward_) {
      sink.Emit(kComputeStream, action);
    }
  }

 private:
  // Declares a whole tensor and holds it.
  View Hold(std::vector<Held>& list, const Problem& problem, Tensor tensor, std::string name,
            BufferRole role) {
    const Problem::Extent extent = problem.ExtentOf(tensor);
    const int buffer = tensor == Tensor::kLse ? DeclareRowStat(frame_, std::move(name),
                                                               extent.tokens, extent.heads, role)
                                              : Declare(frame_, {.name = std::move(name),
                                                                 .rows = extent.tokens,
                                                                 .heads = extent.heads,
                                                                 .dim = extent.dim,
                                                                 .dtype = problem.dtype,
                                                                 .role = role});
    View view = All(frame_, buffer);
    list.push_back({tensor, 0, TokenSet::Range(0, extent.tokens), {0, extent.heads}, view});
    return view;
  }

  RankPlan frame_;
  std::vector<Action> forward_, backward_;
};

}  // namespace

std::vector<RankPlan> MakeSinglePlan(const PlanRequest& request) {
  return BuildPlans(1, request.backward,
                    [&](int) { return std::make_unique<SingleSchedule>(request); });
}

}  // namespace lcab::cp
