#include "cp/testing/mutations.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp {
namespace {

using Visit = std::function<void(const std::string&, const std::vector<RankPlan>&)>;

std::vector<View*> ViewsOf(Action& action) {
  std::vector<View*> views;
  const auto add = [&views](std::initializer_list<View*> list) {
    for (View* view : list) {
      if (view->used() && !view->rows.empty() && !view->heads.empty()) views.push_back(view);
    }
  };
  if (auto* a = std::get_if<Attend>(&action)) add({&a->q, &a->k, &a->v, &a->out, &a->lse});
  if (auto* a = std::get_if<AttendBackward>(&action)) {
    add({&a->q, &a->k, &a->v, &a->dout, &a->lse, &a->out, &a->delta, &a->dq, &a->dk, &a->dv});
  }
  if (auto* a = std::get_if<Delta>(&action)) add({&a->out, &a->dout, &a->delta});
  if (auto* a = std::get_if<Merge>(&action)) add({&a->out, &a->lse, &a->part, &a->part_lse});
  if (auto* a = std::get_if<Add>(&action)) add({&a->to, &a->from});
  if (auto* a = std::get_if<Copy>(&action)) add({&a->to, &a->from});
  if (auto* a = std::get_if<Fill>(&action)) add({&a->to});
  if (auto* a = std::get_if<Exchange>(&action)) {
    for (auto* messages : {&a->sends, &a->receives}) {
      for (Message& message : *messages) add({&message.view});
    }
  }
  return views;
}

AttendTarget* TargetOf(Action& action) {
  if (auto* a = std::get_if<Attend>(&action)) return &a->target;
  if (auto* a = std::get_if<AttendBackward>(&action)) return &a->target;
  return nullptr;
}

std::vector<Step>& StepsOf(RankPlan& plan, Pass pass) {
  return pass == Pass::kForward ? plan.forward : plan.backward;
}

// Moves an interval by one inside [0, limit), or cuts it by one.
Interval Shifted(Interval interval, int64_t limit) {
  if (interval.end < limit) return {interval.begin + 1, interval.end + 1};
  if (interval.begin > 0) return {interval.begin - 1, interval.end - 1};
  return {interval.begin, interval.end - 1};
}

// Tokens moved on by one, the last to the first's place.
TokenSet ShiftedTokens(const TokenSet& tokens, int64_t limit) {
  std::vector<int64_t> all;
  for (int64_t row = 0; row < tokens.rows(); ++row) {
    all.push_back((*tokens.TokenAt(row) + 1) % limit);
  }
  return TokenSet::FromIndices(all).value();
}

// `after` of later steps names steps by index: those are moved along.
void Renumber(std::vector<Step>& steps, const std::function<int(int)>& to) {
  for (Step& step : steps) {
    std::vector<int> after;
    for (const int index : step.after) {
      if (const int moved = to(index); moved >= 0) after.push_back(moved);
    }
    std::sort(after.begin(), after.end());
    step.after = std::move(after);
  }
}

class Breaker {
 public:
  Breaker(const std::vector<RankPlan>& plans, const Visit& visit) : plans_(plans), visit_(visit) {}

  void Apply(Break kind) {
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      rank_ = rank;
      if (kind == Break::kShareMemory || kind == Break::kNarrowBuffer) {
        BreakBuffers(kind);
        continue;
      }
      if (kind == Break::kChangeHolding) {
        BreakHoldings();
        continue;
      }
      for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        pass_ = pass;
        const int steps = static_cast<int>(plans_[rank].steps(pass).size());
        for (int step = 0; step < steps; ++step) BreakStep(kind, step);
      }
    }
  }

 private:
  // Changes a copy of the plans and shows it. `change` says in words what it did; "": nothing.
  void Try(const std::function<std::string(RankPlan&)>& change) {
    std::vector<RankPlan> broken = plans_;
    const std::string what = change(broken[rank_]);
    if (!what.empty()) visit_(fmt::format("rank {}: {}", rank_, what), broken);
  }
  void TryStep(int step, const std::function<std::string(RankPlan&, Action&)>& change) {
    Try([&](RankPlan& plan) {
      Action& action = StepsOf(plan, pass_)[static_cast<size_t>(step)].action;
      const std::string what = change(plan, action);
      return what.empty() ? "" : fmt::format("{}: {}", Place(plan, pass_, step), what);
    });
  }

  void BreakStep(Break kind, int step) {
    switch (kind) {
      case Break::kDropStep:
      case Break::kSwapSteps:
      case Break::kRepeatStep:
      case Break::kForgetDependency:
      case Break::kMoveStep:
        return BreakOrder(kind, step);
      case Break::kShiftRows:
      case Break::kChangeHeads:
      case Break::kChangeBuffer:
        return BreakViews(kind, step);
      case Break::kShiftTokens:
      case Break::kChangeTargetHeads:
        return BreakTarget(kind, step);
      case Break::kChangePeer:
      case Break::kSwapMessages:
      case Break::kDropMessage:
        return BreakMessages(kind, step);
      case Break::kChangeFill:
        return TryStep(step, [](RankPlan&, Action& action) -> std::string {
          auto* fill = std::get_if<Fill>(&action);
          if (fill == nullptr || fill->to.rows.empty()) return "";
          fill->value = fill->value == 0 ? -std::numeric_limits<float>::infinity() : 0;
          return fmt::format("fills with {}", fill->value);
        });
      case Break::kShareMemory:
      case Break::kNarrowBuffer:
      case Break::kChangeHolding:
        return;
    }
  }

  void BreakOrder(Break kind, int index) {
    const auto at = static_cast<size_t>(index);
    if (kind == Break::kForgetDependency) {
      const size_t count = plans_[rank_].steps(pass_)[at].after.size();
      for (size_t n = 0; n < count; ++n) {
        Try([&](RankPlan& plan) {
          std::vector<int>& after = StepsOf(plan, pass_)[at].after;
          const int forgotten = after[n];
          after.erase(after.begin() + static_cast<std::ptrdiff_t>(n));
          return fmt::format("{} no longer waits for step {}", Place(plan, pass_, index),
                             forgotten);
        });
      }
      return;
    }
    Try([&](RankPlan& plan) -> std::string {
      std::vector<Step>& steps = StepsOf(plan, pass_);
      const std::string place = Place(plan, pass_, index);
      if (kind == Break::kMoveStep) {
        if (plan.streams == 1) return "";
        steps[at].stream = (steps[at].stream + 1) % plan.streams;
        return "on another stream: " + place;
      }
      if (kind == Break::kDropStep) {
        steps.erase(steps.begin() + index);
        Renumber(steps, [index](int i) { return i == index ? -1 : i - (i > index ? 1 : 0); });
        return "dropped " + place;
      }
      if (kind == Break::kRepeatStep) {
        steps.insert(steps.begin() + index, steps[at]);
        Renumber(steps, [index](int i) { return i >= index ? i + 1 : i; });
        return "twice " + place;
      }
      if (at + 1 == steps.size()) return "";
      std::swap(steps[at], steps[at + 1]);
      Renumber(steps, [index](int i) { return i == index ? i + 1 : i == index + 1 ? i - 1 : i; });
      return "swapped with the next: " + place;
    });
  }

  void BreakViews(Break kind, int step) {
    Action original = plans_[rank_].steps(pass_)[static_cast<size_t>(step)].action;
    const size_t views = ViewsOf(original).size();
    for (size_t n = 0; n < views; ++n) {
      TryStep(step, [&](RankPlan& plan, Action& action) -> std::string {
        View& view = *ViewsOf(action)[n];
        const Buffer& buffer = plan.buffers[static_cast<size_t>(view.buffer)];
        const std::string before = Describe(plan, view);
        if (kind == Break::kChangeBuffer) {
          for (int i = 1; i < static_cast<int>(plan.buffers.size()); ++i) {
            const int other = (view.buffer + i) % static_cast<int>(plan.buffers.size());
            const Buffer& b = plan.buffers[static_cast<size_t>(other)];
            if (b.rows != buffer.rows || b.heads != buffer.heads || b.dim != buffer.dim ||
                b.dtype != buffer.dtype || b.head_major != buffer.head_major) {
              continue;
            }
            view.buffer = other;
            return fmt::format("{} becomes {}", before, Describe(plan, view));
          }
          return "";
        }
        Interval& run = kind == Break::kShiftRows ? view.rows.front() : view.heads.front();
        run = Shifted(run, kind == Break::kShiftRows ? buffer.rows : buffer.heads);
        if (run.empty()) (kind == Break::kShiftRows ? view.rows : view.heads).clear();
        return fmt::format("{} becomes {}", before, Describe(plan, view));
      });
    }
  }

  void BreakTarget(Break kind, int step) {
    for (const bool queries : {true, false}) {
      TryStep(step, [&](RankPlan& plan, Action& action) -> std::string {
        AttendTarget* target = TargetOf(action);
        if (target == nullptr) return "";
        const Problem& problem = plan.problems.front();
        if (kind == Break::kChangeTargetHeads) {
          Interval& heads = queries ? target->q_heads : target->kv_heads;
          heads = Shifted(heads, queries ? problem.q_heads : problem.kv_heads);
          return "changed the heads of its target";
        }
        TokenSet& tokens = queries ? target->q_tokens : target->k_tokens;
        tokens = ShiftedTokens(tokens, queries ? problem.q_tokens() : problem.k_tokens());
        return fmt::format("shifted its {}", queries ? "queries" : "keys");
      });
    }
  }

  void BreakMessages(Break kind, int step) {
    for (const bool sends : {true, false}) {
      for (size_t n = 0; n < 64; ++n) {
        bool there = false;
        TryStep(step, [&](RankPlan& plan, Action& action) -> std::string {
          auto* exchange = std::get_if<Exchange>(&action);
          if (exchange == nullptr) return "";
          auto& messages = sends ? exchange->sends : exchange->receives;
          if (n >= messages.size()) return "";
          there = true;
          const std::string which = fmt::format("{} {}", sends ? "send" : "receive", n);
          if (kind == Break::kChangePeer) {
            messages[n].peer = (messages[n].peer + 1) % plan.ranks;
            return which + " has another peer";
          }
          if (kind == Break::kDropMessage) {
            messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n));
            return which + " is dropped";
          }
          if (n + 1 == messages.size()) return "";
          std::swap(messages[n], messages[n + 1]);
          return which + " is swapped with the next";
        });
        if (!there) break;
      }
    }
  }

  void BreakBuffers(Break kind) {
    const int buffers = static_cast<int>(plans_[rank_].buffers.size());
    for (int i = 0; i < buffers; ++i) {
      if (kind == Break::kNarrowBuffer) {
        Try([&](RankPlan& plan) -> std::string {
          Buffer& buffer = plan.buffers[static_cast<size_t>(i)];
          if (buffer.dtype != DType::kFloat32 || buffer.bytes() == 0) return "";
          buffer.dtype = DType::kBFloat16;
          return buffer.name + " in bf16";
        });
        continue;
      }
      for (int j = 0; j < buffers; ++j) {
        Try([&](RankPlan& plan) -> std::string {
          Buffer& a = plan.buffers[static_cast<size_t>(i)];
          const Buffer& b = plan.buffers[static_cast<size_t>(j)];
          if (i == j || a.bytes() == 0 || b.bytes() == 0 || a.offset == b.offset ||
              b.offset + a.bytes() > plan.slab_bytes)
            return "";
          a.offset = b.offset;
          return fmt::format("{} lies where {} does", a.name, b.name);
        });
      }
    }
  }

  void BreakHoldings() {
    for (int list = 0; list < 3; ++list) {
      for (size_t n = 0; n < 5; ++n) {
        for (const bool tokens : {true, false}) {
          Try([&](RankPlan& plan) -> std::string {
            std::vector<Held>& holdings = list == 0   ? plan.inputs
                                          : list == 1 ? plan.forward_outputs
                                                      : plan.backward_outputs;
            if (n >= holdings.size() || holdings[n].tokens.empty()) return "";
            Held& held = holdings[n];
            const Problem::Extent extent = plan.problems.front().ExtentOf(held.tensor);
            if (tokens) {
              held.tokens = ShiftedTokens(held.tokens, extent.tokens);
            } else {
              held.heads = Shifted(held.heads, extent.heads);
            }
            return fmt::format("holds other {} of {}", tokens ? "tokens" : "heads",
                               lcab::Name(held.tensor));
          });
        }
      }
    }
  }

  const std::vector<RankPlan>& plans_;
  const Visit& visit_;
  size_t rank_ = 0;
  Pass pass_ = Pass::kForward;
};

}  // namespace

std::string Name(Break kind) {
  static constexpr const char* kNames[] = {
      "drop step",         "swap steps",    "repeat step",   "shift rows",
      "change heads",      "change buffer", "shift tokens",  "change target heads",
      "forget dependency", "move step",     "change peer",   "swap messages",
      "drop message",      "share memory",  "narrow buffer", "change holding",
      "change fill"};
  static_assert(std::size(kNames) == kBreaks);
  return kNames[static_cast<size_t>(kind)];
}

void ForEachBreak(const std::vector<RankPlan>& plans, Break kind, const Visit& visit) {
  Breaker(plans, visit).Apply(kind);
}

}  // namespace lcab::cp
