#include "cp/builder.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace lcab::cp {
namespace {

struct Access {
  const View* view;
  bool writes;
};

// What an action reads and writes. Merge and Add do both to their first operands.
class Accesses {
 public:
  explicit Accesses(const Action& action) {
    std::visit([this](const auto& a) { Collect(a); }, action);
  }
  const std::vector<Access>& list() const { return list_; }

 private:
  void Collect(const Attend& a) {
    Reads({&a.q, &a.k, &a.v});
    Writes({&a.out, &a.lse});
  }
  void Collect(const AttendBackward& a) {
    Reads({&a.q, &a.k, &a.v, &a.dout, &a.lse, &a.out, &a.delta});
    Writes({&a.dq, &a.dk, &a.dv});
  }
  void Collect(const Delta& a) {
    Reads({&a.out, &a.dout});
    Writes({&a.delta});
  }
  void Collect(const Merge& a) {
    Reads({&a.part, &a.part_lse});
    Writes({&a.out, &a.lse});
  }
  void Collect(const Add& a) {
    Reads({&a.from});
    Writes({&a.to});
  }
  void Collect(const Copy& a) {
    Reads({&a.from});
    Writes({&a.to});
  }
  void Collect(const Fill& a) { Writes({&a.to}); }
  void Collect(const Exchange& a) {
    for (const Message& message : a.sends) Reads({&message.view});
    for (const Message& message : a.receives) Writes({&message.view});
  }
  void Reads(std::initializer_list<const View*> views) { Append(views, false); }
  void Writes(std::initializer_list<const View*> views) { Append(views, true); }
  void Append(std::initializer_list<const View*> views, bool writes) {
    for (const View* view : views) {
      if (view->used() && !view->rows.empty() && !view->heads.empty()) {
        list_.push_back({view, writes});
      }
    }
  }

  std::vector<Access> list_;
};

bool RunsMeet(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  return std::any_of(a.begin(), a.end(), [&b](const Interval& x) {
    return std::any_of(b.begin(), b.end(),
                       [&x](const Interval& y) { return x.begin < y.end && y.begin < x.end; });
  });
}

// Where the buffers of a plan are alive, and then where they lie.
class MemoryPlanner {
 public:
  explicit MemoryPlanner(RankPlan& plan) : plan_(plan), lives_(plan.buffers.size()) {}

  void Place() {
    FindLives();
    // Largest first, each at the lowest offset where nothing that lives at the same time lies
    // (Pisarchyk and Lee, arXiv 2001.03288, "greedy by size").
    std::vector<size_t> order(plan_.buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return plan_.buffers[a].bytes() > plan_.buffers[b].bytes();
    });
    std::vector<size_t> placed;  // ascending offsets
    for (const size_t index : order) {
      Buffer& buffer = plan_.buffers[index];
      if (!lives_[index].used) buffer.rows = 0;
      if (buffer.bytes() == 0) continue;
      int64_t offset = 0;
      for (const size_t other : placed) {
        const Buffer& there = plan_.buffers[other];
        if (!LiveTogether(lives_[index], lives_[other])) continue;
        if (offset + Aligned(buffer.bytes()) <= there.offset) break;
        offset = std::max(offset, there.offset + Aligned(there.bytes()));
      }
      buffer.offset = offset;
      plan_.slab_bytes = std::max(plan_.slab_bytes, offset + Aligned(buffer.bytes()));
      placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                     [this](size_t a, size_t b) {
                                       return plan_.buffers[a].offset < plan_.buffers[b].offset;
                                     }),
                    index);
    }
  }

 private:
  struct Life {
    bool used = false;
    bool always = false;
    // First and last step that touches it, for each pass.
    std::optional<std::pair<int, int>> pass[2];
  };

  static int64_t Aligned(int64_t bytes) {
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }

  static bool LiveTogether(const Life& a, const Life& b) {
    if (a.always || b.always) return true;
    for (int pass = 0; pass < 2; ++pass) {
      if (a.pass[pass] && b.pass[pass] && a.pass[pass]->first <= b.pass[pass]->second &&
          b.pass[pass]->first <= a.pass[pass]->second) {
        return true;
      }
    }
    return false;
  }

  void FindLives() {
    for (const std::vector<Held>* holdings :
         {&plan_.inputs, &plan_.forward_outputs, &plan_.backward_outputs}) {
      for (const Held& held : *holdings) lives_[static_cast<size_t>(held.view.buffer)].used = true;
    }
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      const std::vector<Step>& steps = plan_.steps(pass);
      for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
        const Accesses accesses(steps[static_cast<size_t>(i)].action);
        for (const Access& access : accesses.list()) {
          Life& life = lives_[static_cast<size_t>(access.view->buffer)];
          life.used = true;
          auto& span = life.pass[pass == Pass::kForward ? 0 : 1];
          if (!span) span.emplace(i, i);
          span->second = i;
        }
      }
    }
    for (size_t i = 0; i < lives_.size(); ++i) {
      lives_[i].always = plan_.buffers[i].role != BufferRole::kTemp;
    }
  }

  RankPlan& plan_;
  std::vector<Life> lives_;
};

// Fills in `after`: for each step, the fewest steps of other streams that order it behind
// everything it conflicts with.
class DependencyDeriver {
 public:
  explicit DependencyDeriver(const RankPlan& plan) : plan_(plan) {}

  void Derive(std::vector<Step>& steps) {
    std::vector<Accesses> accesses;
    // known[i][s]: the last step of stream s that is sure to be complete when step i starts.
    std::vector<std::vector<int>> known;
    std::vector<int> last(static_cast<size_t>(plan_.streams), -1);
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      Step& step = steps[static_cast<size_t>(i)];
      accesses.emplace_back(step.action);
      const auto stream = static_cast<size_t>(step.stream);
      std::vector<int> now = last[stream] < 0 ? std::vector<int>(last.size(), -1)
                                              : known[static_cast<size_t>(last[stream])];
      now[stream] = last[stream];
      for (int j = i - 1; j >= 0; --j) {  // the latest first: it may imply the earlier ones
        const auto earlier = static_cast<size_t>(j);
        const auto other = static_cast<size_t>(steps[earlier].stream);
        if (now[other] >= j || !Conflict(accesses[earlier], accesses.back())) continue;
        step.after.push_back(j);
        now[other] = j;
        for (size_t s = 0; s < now.size(); ++s) now[s] = std::max(now[s], known[earlier][s]);
      }
      std::reverse(step.after.begin(), step.after.end());
      known.push_back(std::move(now));
      last[stream] = i;
    }
  }

 private:
  bool Conflict(const Accesses& a, const Accesses& b) const {
    for (const Access& x : a.list()) {
      for (const Access& y : b.list()) {
        if ((x.writes || y.writes) && Meet(*x.view, *y.view)) return true;
      }
    }
    return false;
  }

  // In one buffer exactly; buffers that share memory meet as wholes.
  bool Meet(const View& a, const View& b) const {
    if (a.buffer == b.buffer) return RunsMeet(a.rows, b.rows) && RunsMeet(a.heads, b.heads);
    const Buffer& x = plan_.buffers[static_cast<size_t>(a.buffer)];
    const Buffer& y = plan_.buffers[static_cast<size_t>(b.buffer)];
    return x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes();
  }

  const RankPlan& plan_;
};

class Collector : public StepSink {
 public:
  explicit Collector(std::vector<Step>& steps) : steps_(steps) {}
  void Emit(StreamIndex stream, Action action) override {
    steps_.push_back({.stream = stream, .after = {}, .action = std::move(action)});
  }

 private:
  std::vector<Step>& steps_;
};

}  // namespace

RankPlan BuildPlan(const RankSchedule& schedule, bool backward) {
  RankPlan plan = schedule.frame();
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    if (pass == Pass::kBackward && !backward) break;
    Collector collector(pass == Pass::kForward ? plan.forward : plan.backward);
    for (int round = 0; round < schedule.Rounds(pass); ++round) {
      schedule.EmitRound(pass, round, collector);
    }
  }
  MemoryPlanner(plan).Place();
  DependencyDeriver deriver(plan);
  deriver.Derive(plan.forward);
  deriver.Derive(plan.backward);
  return plan;
}

std::vector<RankPlan> BuildPlans(
    int ranks, bool backward,
    const std::function<std::unique_ptr<RankSchedule>(int rank)>& make_schedule) {
  std::vector<RankPlan> plans;
  for (int rank = 0; rank < ranks; ++rank) {
    plans.push_back(BuildPlan(*make_schedule(rank), backward));
  }
  return plans;
}

int Declare(RankPlan& frame, Buffer buffer) {
  frame.buffers.push_back(std::move(buffer));
  return static_cast<int>(frame.buffers.size()) - 1;
}

int DeclareRowStat(RankPlan& frame, std::string name, int64_t rows, int64_t heads,
                   BufferRole role) {
  return Declare(frame, {.name = std::move(name),
                         .rows = rows,
                         .heads = heads,
                         .dim = 1,
                         .dtype = DType::kFloat32,
                         .role = role,
                         .head_major = true});
}

View All(const RankPlan& frame, int buffer) {
  const Buffer& b = frame.buffers[static_cast<size_t>(buffer)];
  return Part(buffer, {0, b.rows}, {0, b.heads});
}

View Part(int buffer, Interval rows, Interval heads) {
  View view{.buffer = buffer};
  if (!rows.empty()) view.rows.push_back(rows);
  if (!heads.empty()) view.heads.push_back(heads);
  return view;
}

View RowsPart(const RankPlan& frame, int buffer, Interval rows) {
  return Part(buffer, rows, {0, frame.buffers[static_cast<size_t>(buffer)].heads});
}

void AddMessage(std::vector<Message>& messages, int peer, View view) {
  if (view.rows.empty() || view.heads.empty()) return;
  messages.push_back({.peer = peer, .view = std::move(view)});
}

}  // namespace lcab::cp
