#include "cp/proof/holdings.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp::proof {
namespace {

template <typename... Arguments>
absl::Status Broken(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// What is held of one tensor, by head: sorted runs of tokens; runs that touch
// are one, runs that overlap stay two.
using HeldTokens = std::map<int64_t, std::vector<Interval>>;

HeldTokens Collect(const std::vector<Held>& holdings, Tensor tensor, int problem) {
  HeldTokens by_head;
  for (const Held& held : holdings) {
    if (held.tensor != tensor || held.problem != problem) continue;
    const std::vector<Interval> runs = held.tokens.Intervals();
    for (int64_t head = held.heads.begin; head < held.heads.end; ++head) {
      by_head[head].insert(by_head[head].end(), runs.begin(), runs.end());
    }
  }
  HeldTokens merged;
  for (auto& [head, runs] : by_head) {
    std::sort(runs.begin(), runs.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    for (const Interval& run : runs) {
      std::vector<Interval>& to = merged[head];
      if (!to.empty() && to.back().end == run.begin) {
        to.back().end = run.end;
      } else {
        to.push_back(run);
      }
    }
  }
  return merged;
}

absl::Status CheckOnce(const std::vector<RankPlan>& plans, const std::vector<Held>& holdings,
                       Tensor tensor, int problem) {
  const Problem::Extent extent =
      plans.front().problems[static_cast<size_t>(problem)].ExtentOf(tensor);
  HeldTokens by_head = Collect(holdings, tensor, problem);
  for (int64_t head = 0; head < extent.heads; ++head) {
    int64_t next = 0;
    for (const Interval& run : by_head[head]) {
      if (run.begin != next) {
        return Broken("token {} of {}, head {}, is held {}", std::min(run.begin, next),
                      Name(tensor), head, run.begin > next ? "by no rank" : "twice");
      }
      next = run.end;
    }
    if (next != extent.tokens) {
      return Broken("token {} of {}, head {}, is held by no rank", next, Name(tensor), head);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHoldings(const std::vector<RankPlan>& plans) {
  std::vector<Held> inputs, outputs;
  const RankPlan& first = plans.front();
  const bool backward = !first.backward_outputs.empty();
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    const RankPlan& plan = plans[rank];
    if (plan.rank != static_cast<int>(rank) || plan.ranks != static_cast<int>(plans.size()) ||
        plan.communicators != first.communicators) {
      return Broken("plan {} of {} is that of rank {} of {}, with {} communicators", rank,
                    plans.size(), plan.rank, plan.ranks, plan.communicators);
    }
    bool same = plan.problems.size() == first.problems.size();
    for (size_t i = 0; same && i < plan.problems.size(); ++i) {
      const Problem& a = plan.problems[i];
      const Problem& b = first.problems[i];
      same = a.op == b.op && a.q_heads == b.q_heads && a.kv_heads == b.kv_heads &&
             a.qk_head_dim == b.qk_head_dim && a.v_head_dim == b.v_head_dim && a.dtype == b.dtype &&
             (a.mask == b.mask || *a.mask == *b.mask);
    }
    if (!same) return Broken("rank {} and rank 0 have different problems", rank);
    inputs.insert(inputs.end(), plan.inputs.begin(), plan.inputs.end());
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      outputs.insert(outputs.end(), plan.outputs(pass).begin(), plan.outputs(pass).end());
    }
  }
  struct Rule {
    Tensor output, input;
    bool of_backward;
  };
  static constexpr Rule kRules[] = {{Tensor::kOut, Tensor::kQ, false},
                                    {Tensor::kDQ, Tensor::kQ, true},
                                    {Tensor::kDK, Tensor::kK, true},
                                    {Tensor::kDV, Tensor::kV, true},
                                    {Tensor::kLse, Tensor::kLse, false}};
  const std::pair<Tensor, Tensor> together[] = {{Tensor::kV, Tensor::kK},
                                                {Tensor::kDOut, Tensor::kQ}};
  for (int problem = 0; problem < static_cast<int>(first.problems.size()); ++problem) {
    for (const auto& [tensor, with] : together) {
      if (tensor == Tensor::kDOut && !backward) continue;
      for (const RankPlan& plan : plans) {
        if (Collect(plan.inputs, tensor, problem) != Collect(plan.inputs, with, problem)) {
          return Broken("rank {} holds other tokens of {} than of {}", plan.rank, Name(tensor),
                        Name(with));
        }
      }
    }
    for (const Tensor input : {Tensor::kQ, Tensor::kK, Tensor::kV, Tensor::kDOut}) {
      if (input == Tensor::kDOut && !backward) continue;
      if (absl::Status s = CheckOnce(plans, inputs, input, problem); !s.ok()) return s;
    }
    for (const Rule& rule : kRules) {
      if (rule.of_backward && !backward) continue;
      if (absl::Status s = CheckOnce(plans, outputs, rule.output, problem); !s.ok()) return s;
      if (rule.output == Tensor::kLse) continue;
      for (const RankPlan& plan : plans) {
        const auto& of_pass = rule.of_backward ? plan.backward_outputs : plan.forward_outputs;
        if (Collect(of_pass, rule.output, problem) != Collect(plan.inputs, rule.input, problem)) {
          return Broken("rank {} holds other tokens of {} than of {}", plan.rank, Name(rule.output),
                        Name(rule.input));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lcab::cp::proof
