#include "cp/proof/structure.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp::proof {
namespace {

template <typename... Arguments>
absl::Status Broken(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

void Append(std::vector<Access>& list, bool writes, std::initializer_list<const View*> views) {
  for (const View* view : views) {
    if (view->used() && !view->rows.empty() && !view->heads.empty()) {
      list.push_back({view, writes});
    }
  }
}

bool Overlap(Interval a, Interval b) { return std::max(a.begin, b.begin) < std::min(a.end, b.end); }

bool AnyOverlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  for (const Interval& x : a) {
    for (const Interval& y : b) {
      if (Overlap(x, y)) return true;
    }
  }
  return false;
}

// Non-empty runs inside [0, limit) that do not overlap each other.
bool RunsFit(std::vector<Interval> runs, int64_t limit) {
  std::sort(runs.begin(), runs.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const Interval& run : runs) {
    if (run.begin < end || run.empty() || run.end > limit) return false;
    end = run.end;
  }
  return true;
}

// Checks the steps of one rank's plan.
class StepChecker {
 public:
  explicit StepChecker(const RankPlan& plan)
      : plan_(plan), stream_of_(static_cast<size_t>(plan.communicators), -1) {}

  absl::Status Check(const Step& step, int index) {
    if (step.stream < 0 || step.stream >= plan_.streams) {
      return Broken("there is no stream {}", step.stream);
    }
    for (const int earlier : step.after) {
      if (earlier < 0 || earlier >= index) return Broken("it waits for step {}", earlier);
    }
    stream_ = step.stream;
    if (absl::Status s = std::visit([this](const auto& a) { return Do(a); }, step.action);
        !s.ok()) {
      return s;
    }
    return CheckOverlap(step.action);
  }

  absl::Status CheckHeld(const Held& held) const {
    if (absl::Status s = CheckView(held.view); !s.ok()) return s;
    if (absl::Status s = CheckProblem(held.problem); !s.ok()) return s;
    const Problem& problem = ProblemAt(held.problem);
    const Problem::Extent extent = problem.ExtentOf(held.tensor);
    const bool stat = held.tensor == Tensor::kLse;
    if (held.heads.begin < 0 || held.heads.end > extent.heads) return Broken("heads do not exist");
    for (const Interval& run : held.tokens.Intervals()) {
      if (run.begin < 0 || run.end > extent.tokens) return Broken("tokens do not exist");
    }
    return CheckShape(held.view, held.tokens.rows(), held.heads.size(), extent.dim,
                      stat ? DType::kFloat32 : problem.dtype, stat, /*one_run=*/true);
  }

 private:
  const Problem& ProblemAt(int index) const { return plan_.problems[static_cast<size_t>(index)]; }
  const Buffer& BufferOf(const View& view) const {
    return plan_.buffers[static_cast<size_t>(view.buffer)];
  }

  absl::Status CheckProblem(int index) const {
    if (index >= 0 && index < static_cast<int>(plan_.problems.size())) return absl::OkStatus();
    return Broken("there is no problem {}", index);
  }

  absl::Status CheckView(const View& view) const {
    if (view.buffer < 0 || view.buffer >= static_cast<int>(plan_.buffers.size())) {
      return Broken("there is no buffer {}", view.buffer);
    }
    const Buffer& buffer = BufferOf(view);
    if (RunsFit(view.rows, buffer.rows) && RunsFit(view.heads, buffer.heads)) {
      return absl::OkStatus();
    }
    return Broken("{} does not fit its buffer of {} rows and {} heads", Describe(plan_, view),
                  buffer.rows, buffer.heads);
  }

  absl::Status CheckShape(const View& view, int64_t rows, int64_t heads, int64_t dim, DType dtype,
                          bool head_major, bool one_run) const {
    if (absl::Status s = CheckView(view); !s.ok()) return s;
    const Buffer& buffer = BufferOf(view);
    if (RowsOf(view) != rows || (rows > 0 && HeadsOf(view) != heads) || buffer.dim != dim ||
        buffer.dtype != dtype || buffer.head_major != head_major) {
      return Broken("{}, of dim {} in {}{}, should be {} rows x {} heads x {} in {}{}",
                    Describe(plan_, view), buffer.dim, Name(buffer.dtype),
                    buffer.head_major ? " by heads" : "", rows, heads, dim, Name(dtype),
                    head_major ? " by heads" : "");
    }
    if (one_run && (view.rows.size() > 1 || view.heads.size() > 1)) {
      return Broken("{} must be one run of rows and one of heads", Describe(plan_, view));
    }
    return absl::OkStatus();
  }

  // Rows, heads and dims are those of another view.
  absl::Status CheckLike(const View& view, const View& like) const {
    if (absl::Status s = CheckView(view); !s.ok()) return s;
    if (absl::Status s = CheckView(like); !s.ok()) return s;
    if (RowsOf(view) == RowsOf(like) && HeadsOf(view) == HeadsOf(like) &&
        BufferOf(view).dim == BufferOf(like).dim) {
      return absl::OkStatus();
    }
    return Broken("{} and {} differ in rows, heads or dim", Describe(plan_, view),
                  Describe(plan_, like));
  }

  absl::Status CheckFloat32(std::initializer_list<const View*> views) const {
    for (const View* view : views) {
      if (BufferOf(*view).dtype != DType::kFloat32) {
        return Broken("{} must be fp32 to be summed", Describe(plan_, *view));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckStat(const View& view, const View& like) const {
    if (absl::Status s = CheckView(like); !s.ok()) return s;
    return CheckShape(view, RowsOf(like), HeadsOf(like), 1, DType::kFloat32, true, false);
  }

  absl::Status CheckTarget(const AttendTarget& t) const {
    if (absl::Status s = CheckProblem(t.problem); !s.ok()) return s;
    const Problem& problem = ProblemAt(t.problem);
    const int64_t q_heads = t.q_heads.size(), kv_heads = t.kv_heads.size();
    const bool exist = t.q_heads.begin >= 0 && t.q_heads.end <= problem.q_heads &&
                       t.kv_heads.begin >= 0 && t.kv_heads.end <= problem.kv_heads;
    if (!exist || q_heads == 0 || kv_heads == 0 || q_heads % kv_heads != 0) {
      return Broken("query heads [{},{}) and kv heads [{},{}) pose no problem", t.q_heads.begin,
                    t.q_heads.end, t.kv_heads.begin, t.kv_heads.end);
    }
    for (int64_t head = 0; head < q_heads; ++head) {
      // A kernel takes the n-th of equal groups of query heads with the n-th kv head.
      if (problem.KvHeadOf(t.q_heads.begin + head) !=
          t.kv_heads.begin + head / (q_heads / kv_heads)) {
        return Broken("query head {} does not belong to the kv head that it would be given",
                      t.q_heads.begin + head);
      }
    }
    return absl::OkStatus();
  }

  // Partial results may be fp32 whatever the problem's dtype.
  DType ResultType(const View& view, const Problem& problem) const {
    const bool exists = view.buffer >= 0 && view.buffer < static_cast<int>(plan_.buffers.size());
    return exists && BufferOf(view).dtype == DType::kFloat32 ? DType::kFloat32 : problem.dtype;
  }

  absl::Status Do(const Attend& a) {
    if (absl::Status s = CheckTarget(a.target); !s.ok()) return s;
    const Problem& p = ProblemAt(a.target.problem);
    const int64_t q_rows = a.target.q_tokens.rows(), k_rows = a.target.k_tokens.rows();
    const int64_t q_heads = a.target.q_heads.size(), kv_heads = a.target.kv_heads.size();
    absl::Status s = CheckShape(a.q, q_rows, q_heads, p.qk_head_dim, p.dtype, false, true);
    if (s.ok()) s = CheckShape(a.k, k_rows, kv_heads, p.qk_head_dim, p.dtype, false, true);
    if (s.ok()) s = CheckShape(a.v, k_rows, kv_heads, p.v_head_dim, p.dtype, false, true);
    if (s.ok()) {
      s = CheckShape(a.out, q_rows, q_heads, p.v_head_dim, ResultType(a.out, p), false, true);
    }
    if (s.ok()) s = CheckShape(a.lse, q_rows, q_heads, 1, DType::kFloat32, true, true);
    return s;
  }

  absl::Status Do(const AttendBackward& a) {
    if (absl::Status s = CheckTarget(a.target); !s.ok()) return s;
    const Problem& p = ProblemAt(a.target.problem);
    const int64_t q_rows = a.target.q_tokens.rows(), k_rows = a.target.k_tokens.rows();
    const int64_t q_heads = a.target.q_heads.size(), kv_heads = a.target.kv_heads.size();
    const int64_t qk = p.qk_head_dim, v = p.v_head_dim;
    if (a.out.used() == a.delta.used()) return Broken("it needs one of out and delta");
    absl::Status s = CheckShape(a.q, q_rows, q_heads, qk, p.dtype, false, true);
    if (s.ok()) s = CheckShape(a.k, k_rows, kv_heads, qk, p.dtype, false, true);
    if (s.ok()) s = CheckShape(a.v, k_rows, kv_heads, v, p.dtype, false, true);
    if (s.ok()) s = CheckShape(a.dout, q_rows, q_heads, v, p.dtype, false, true);
    if (s.ok()) s = CheckShape(a.lse, q_rows, q_heads, 1, DType::kFloat32, true, true);
    if (s.ok() && a.out.used()) s = CheckShape(a.out, q_rows, q_heads, v, p.dtype, false, true);
    if (s.ok() && a.delta.used()) {
      s = CheckShape(a.delta, q_rows, q_heads, 1, DType::kFloat32, true, true);
    }
    if (s.ok()) s = CheckShape(a.dq, q_rows, q_heads, qk, ResultType(a.dq, p), false, true);
    if (s.ok()) s = CheckShape(a.dk, k_rows, kv_heads, qk, ResultType(a.dk, p), false, true);
    if (s.ok()) s = CheckShape(a.dv, k_rows, kv_heads, v, ResultType(a.dv, p), false, true);
    return s;
  }

  absl::Status Do(const Delta& a) {
    absl::Status s = CheckLike(a.out, a.dout);
    return s.ok() ? CheckStat(a.delta, a.dout) : s;
  }

  absl::Status Do(const Merge& a) {
    absl::Status s = CheckLike(a.out, a.part);
    if (s.ok()) s = CheckStat(a.lse, a.out);
    if (s.ok()) s = CheckStat(a.part_lse, a.out);
    return s.ok() ? CheckFloat32({&a.out, &a.part}) : s;
  }

  absl::Status Do(const Add& a) {
    absl::Status s = CheckLike(a.to, a.from);
    return s.ok() ? CheckFloat32({&a.to, &a.from}) : s;
  }

  absl::Status Do(const Copy& a) { return CheckLike(a.to, a.from); }

  absl::Status Do(const Fill& a) {
    if (absl::Status s = CheckView(a.to); !s.ok()) return s;
    if (a.value == 0 || a.value == -std::numeric_limits<float>::infinity()) {
      return absl::OkStatus();
    }
    return Broken("it fills with {}: 0 and -inf have a meaning here", a.value);
  }

  absl::Status Do(const Exchange& a) {
    if (a.communicator < 0 || a.communicator >= plan_.communicators) {
      return Broken("there is no communicator {}", a.communicator);
    }
    StreamIndex& stream = stream_of_[static_cast<size_t>(a.communicator)];
    if (stream >= 0 && stream != stream_) {
      return Broken("communicator {} belongs to stream {}", a.communicator, stream);
    }
    stream = stream_;
    for (const std::vector<Message>* messages : {&a.sends, &a.receives}) {
      for (const Message& message : *messages) {
        if (message.peer < 0 || message.peer >= plan_.ranks) {
          return Broken("there is no rank {}", message.peer);
        }
        if (absl::Status s = CheckView(message.view); !s.ok()) return s;
        if (RowsOf(message.view) == 0 || HeadsOf(message.view) == 0) {
          return Broken("{} is an empty message", Describe(plan_, message.view));
        }
        if (!ContiguousBytes(BufferOf(message.view), message.view)) {
          return Broken("{} is not contiguous and cannot travel", Describe(plan_, message.view));
        }
      }
    }
    return absl::OkStatus();
  }

  // Updates in place (Merge, Add) are one operand; any other overlap is a race within the step.
  absl::Status CheckOverlap(const Action& action) const {
    const std::vector<Access> accesses = AccessesOf(action);
    for (size_t i = 0; i < accesses.size(); ++i) {
      for (size_t j = i + 1; j < accesses.size(); ++j) {
        const Access& a = accesses[i];
        const Access& b = accesses[j];
        if (a.view == b.view || !(a.writes || b.writes)) continue;
        if (SharesMemory(plan_, *a.view, *b.view)) {
          return Broken("it writes {} and uses {}, in the same memory",
                        Describe(plan_, a.writes ? *a.view : *b.view),
                        Describe(plan_, a.writes ? *b.view : *a.view));
        }
      }
    }
    return absl::OkStatus();
  }

  const RankPlan& plan_;
  StreamIndex stream_ = 0;              // of the step being checked
  std::vector<StreamIndex> stream_of_;  // by communicator; -1: not seen yet
};

Interval BytesIn(const Buffer& buffer) { return {buffer.offset, buffer.offset + buffer.bytes()}; }

absl::Status CheckMemory(const RankPlan& plan) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.rows < 0 || buffer.heads < 0 || buffer.dim < 1 || buffer.offset < 0 ||
        buffer.offset % kBufferAlignment != 0 || buffer.offset + buffer.bytes() > plan.slab_bytes) {
      return Broken("rank {}: buffer {} does not lie in the slab of {} bytes, or not aligned",
                    plan.rank, buffer.name, plan.slab_bytes);
    }
    if (buffer.head_major && (buffer.dim != 1 || buffer.dtype != DType::kFloat32)) {
      return Broken("rank {}: buffer {} is by heads, but no fp32 row statistic", plan.rank,
                    buffer.name);
    }
    // What lasts from pass to pass, and is filled and read from outside, has its bytes to itself.
    if (buffer.role == BufferRole::kTemp) continue;
    for (const Buffer& other : plan.buffers) {
      if (&other != &buffer && Overlap(BytesIn(buffer), BytesIn(other))) {
        return Broken("rank {}: {} buffer {} shares memory with {}", plan.rank, Name(buffer.role),
                      buffer.name, other.name);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Access> AccessesOf(const Action& action) {
  std::vector<Access> list;
  if (const auto* a = std::get_if<Attend>(&action)) {
    Append(list, false, {&a->q, &a->k, &a->v});
    Append(list, true, {&a->out, &a->lse});
  } else if (const auto* b = std::get_if<AttendBackward>(&action)) {
    Append(list, false, {&b->q, &b->k, &b->v, &b->dout, &b->lse, &b->out, &b->delta});
    Append(list, true, {&b->dq, &b->dk, &b->dv});
  } else if (const auto* d = std::get_if<Delta>(&action)) {
    Append(list, false, {&d->out, &d->dout});
    Append(list, true, {&d->delta});
  } else if (const auto* m = std::get_if<Merge>(&action)) {
    Append(list, false, {&m->out, &m->lse, &m->part, &m->part_lse});
    Append(list, true, {&m->out, &m->lse});
  } else if (const auto* sum = std::get_if<Add>(&action)) {
    Append(list, false, {&sum->to, &sum->from});
    Append(list, true, {&sum->to});
  } else if (const auto* c = std::get_if<Copy>(&action)) {
    Append(list, false, {&c->from});
    Append(list, true, {&c->to});
  } else if (const auto* f = std::get_if<Fill>(&action)) {
    Append(list, true, {&f->to});
  } else if (const auto* e = std::get_if<Exchange>(&action)) {
    for (const Message& message : e->sends) Append(list, false, {&message.view});
    for (const Message& message : e->receives) Append(list, true, {&message.view});
  }
  return list;
}

bool SharesMemory(const RankPlan& plan, const View& a, const View& b) {
  if (a.buffer == b.buffer) return AnyOverlap(a.rows, b.rows) && AnyOverlap(a.heads, b.heads);
  return Overlap(BytesIn(plan.buffers[static_cast<size_t>(a.buffer)]),
                 BytesIn(plan.buffers[static_cast<size_t>(b.buffer)]));
}

absl::Status CheckStructure(const RankPlan& plan) {
  if (plan.streams < 1 || plan.communicators < 0 || plan.problems.empty()) {
    return Broken("rank {} has {} streams, {} communicators and {} problems", plan.rank,
                  plan.streams, plan.communicators, plan.problems.size());
  }
  if (absl::Status s = CheckMemory(plan); !s.ok()) return s;
  StepChecker checker(plan);
  for (const auto& [holdings, what] : {std::pair(&plan.inputs, "input"),
                                       {&plan.forward_outputs, "output"},
                                       {&plan.backward_outputs, "output of the backward pass"}}) {
    for (const Held& held : *holdings) {
      if (absl::Status s = checker.CheckHeld(held); !s.ok()) {
        return Broken("rank {}, {} {}: {}", plan.rank, what, Name(held.tensor),
                      std::string(s.message()));
      }
    }
  }
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (int i = 0; i < static_cast<int>(plan.steps(pass).size()); ++i) {
      if (absl::Status s = checker.Check(plan.steps(pass)[static_cast<size_t>(i)], i); !s.ok()) {
        return Broken("{}: {}", Place(plan, pass, i), std::string(s.message()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lcab::cp::proof
