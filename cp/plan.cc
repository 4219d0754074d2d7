#include "cp/plan.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "fmt/format.h"

namespace lcab::cp {
namespace {

int64_t Total(const std::vector<Interval>& runs) {
  int64_t total = 0;
  for (const Interval& run : runs) total += run.size();
  return total;
}

// The runs as one interval when each begins where the one before it ends.
std::optional<Interval> OneRun(const std::vector<Interval>& runs) {
  Interval all = runs.front();
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].begin != all.end) return std::nullopt;
    all.end = runs[i].end;
  }
  return all;
}

std::string RunsText(const std::vector<Interval>& runs) {
  if (runs.empty()) return "[)";
  std::string text;
  for (const Interval& run : runs) text += fmt::format("[{},{})", run.begin, run.end);
  return text;
}

// FNV-1a over the fields of plans, in 64-bit little-endian words: the same on every machine.
class Hash {
 public:
  void Add(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      state_ = (state_ ^ (word & 0xff)) * 0x100000001b3ULL;
      word >>= 8;
    }
  }
  void Add(int64_t number) { Add(static_cast<uint64_t>(number)); }
  void Add(int number) { Add(static_cast<uint64_t>(static_cast<int64_t>(number))); }
  void Count(size_t number) { Add(static_cast<uint64_t>(number)); }
  void Add(double number) { Add(std::bit_cast<uint64_t>(number)); }
  void Add(std::string_view text) {
    Count(text.size());
    for (const char c : text) Add(static_cast<uint64_t>(static_cast<unsigned char>(c)));
  }
  void Add(const Interval& interval) {
    Add(interval.begin);
    Add(interval.end);
  }
  void Add(const std::vector<Interval>& runs) {
    Count(runs.size());
    for (const Interval& run : runs) Add(run);
  }
  void Add(const TokenSet& tokens) {
    Add(tokens.rows());
    Count(tokens.pieces().size());
    for (const TokenPiece& piece : tokens.pieces()) {
      Add(piece.first);
      Add(piece.stride);
      Add(piece.count);
      Add(piece.local_row);
    }
  }
  void Add(const View& view) {
    Add(view.buffer);
    Add(view.rows);
    Add(view.heads);
  }
  void Add(const AttendTarget& target) {
    Add(target.problem);
    Add(target.q_tokens);
    Add(target.k_tokens);
    Add(target.q_heads);
    Add(target.kv_heads);
  }
  template <typename... Fields>
  void All(const Fields&... fields) {
    (Add(fields), ...);
  }
  void Add(const Attend& a) { All(a.target, a.q, a.k, a.v, a.out, a.lse); }
  void Add(const AttendBackward& a) {
    All(a.target, a.q, a.k, a.v, a.dout, a.lse, a.out, a.delta, a.dq, a.dk, a.dv);
  }
  void Add(const Delta& a) { All(a.out, a.dout, a.delta); }
  void Add(const Merge& a) { All(a.out, a.lse, a.part, a.part_lse); }
  void Add(const cp::Add& a) { All(a.to, a.from); }
  void Add(const Copy& a) { All(a.to, a.from); }
  void Add(const Fill& a) { All(a.to, static_cast<double>(a.value)); }
  void Add(const Exchange& a) {
    All(a.communicator, static_cast<int>(a.pattern));
    for (const std::vector<Message>* messages : {&a.sends, &a.receives}) {
      Count(messages->size());
      for (const Message& message : *messages) All(message.peer, message.view);
    }
  }
  void Add(const std::vector<Step>& steps) {
    Count(steps.size());
    for (const Step& step : steps) {
      Add(step.stream);
      Count(step.after.size());
      for (const int index : step.after) Add(index);
      Count(step.action.index());
      std::visit([this](const auto& action) { Add(action); }, step.action);
    }
  }
  void Add(const std::vector<Held>& holdings) {
    Count(holdings.size());
    for (const Held& held : holdings) {
      All(static_cast<int>(held.tensor), held.problem, held.tokens, held.heads, held.view);
    }
  }
  void Add(const Problem& problem) {
    All(problem.q_heads, problem.kv_heads, problem.qk_head_dim, problem.v_head_dim,
        static_cast<int>(problem.dtype), problem.Scale(), problem.Softcap(),
        problem.mask->q_tokens(), problem.mask->k_tokens(), problem.mask->Digest());
  }
  void Add(const Buffer& buffer) {
    All(std::string_view(buffer.name), buffer.rows, buffer.heads, buffer.dim,
        static_cast<int>(buffer.dtype), static_cast<int>(buffer.role),
        static_cast<int>(buffer.head_major), buffer.offset);
  }

  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string_view Name(BufferRole role) {
  switch (role) {
    case BufferRole::kIn:
      return "in";
    case BufferRole::kSaved:
      return "saved";
    case BufferRole::kOut:
      return "out";
    case BufferRole::kTemp:
      return "temp";
  }
  return "?";
}

std::string_view Name(Pattern pattern) {
  switch (pattern) {
    case Pattern::kPointToPoint:
      return "point-to-point";
    case Pattern::kAllGather:
      return "all-gather";
    case Pattern::kAllToAll:
      return "all-to-all";
    case Pattern::kReduceScatter:
      return "reduce-scatter";
  }
  return "?";
}

std::string_view Name(const Action& action) {
  // In the order of the alternatives of Action.
  static constexpr std::string_view kNames[] = {"Attend", "AttendBackward", "Delta", "Merge",
                                                "Add",    "Copy",           "Fill",  "Exchange"};
  static_assert(std::size(kNames) == std::variant_size_v<Action>);
  return kNames[action.index()];
}

int64_t RowsOf(const View& view) { return Total(view.rows); }
int64_t HeadsOf(const View& view) { return Total(view.heads); }

int64_t BytesOf(const Buffer& buffer, const View& view) {
  return RowsOf(view) * HeadsOf(view) * buffer.dim * SizeOf(buffer.dtype);
}

std::optional<Interval> ContiguousBytes(const Buffer& buffer, const View& view) {
  if (view.rows.empty() || view.heads.empty()) return Interval{0, 0};
  const std::optional<Interval> rows = OneRun(view.rows);
  const std::optional<Interval> heads = OneRun(view.heads);
  if (!rows || !heads) return std::nullopt;
  const int64_t element = buffer.dim * SizeOf(buffer.dtype);
  const Interval& outer = buffer.head_major ? *heads : *rows;
  const Interval& inner = buffer.head_major ? *rows : *heads;
  const int64_t inner_size = buffer.head_major ? buffer.rows : buffer.heads;
  if (outer.size() > 1 && inner.size() != inner_size) return std::nullopt;
  // View order is rows, then heads: a head-major piece is in that order only when one of the two
  // does not vary. Both sides of a message are of one layout, which Prove() holds.
  const int64_t begin = (outer.begin * inner_size + inner.begin) * element;
  return Interval{begin, begin + outer.size() * inner.size() * element};
}

std::string Place(const RankPlan& plan, Pass pass, int step) {
  const std::vector<Step>& steps = plan.steps(pass);
  if (step < 0 || step >= static_cast<int>(steps.size())) {
    return fmt::format("rank {}, {}", plan.rank, Name(pass));
  }
  const Step& s = steps[static_cast<size_t>(step)];
  return fmt::format("rank {}, {}, step {} ({} on stream {})", plan.rank, Name(pass), step,
                     Name(s.action), s.stream);
}

std::string Describe(const RankPlan& plan, const View& view) {
  if (!view.used()) return "nothing";
  if (view.buffer >= static_cast<int>(plan.buffers.size())) {
    return fmt::format("buffer {}", view.buffer);
  }
  return fmt::format("{}{} heads {}", plan.buffers[static_cast<size_t>(view.buffer)].name,
                     RunsText(view.rows), RunsText(view.heads));
}

uint64_t Digest(const std::vector<RankPlan>& plans) {
  Hash hash;
  hash.Count(plans.size());
  for (const RankPlan& plan : plans) {
    hash.All(plan.rank, plan.ranks, plan.streams, plan.communicators, plan.slab_bytes);
    hash.Count(plan.problems.size());
    for (const Problem& problem : plan.problems) hash.Add(problem);
    hash.Count(plan.buffers.size());
    for (const Buffer& buffer : plan.buffers) hash.Add(buffer);
    hash.All(plan.inputs, plan.forward_outputs, plan.backward_outputs, plan.forward, plan.backward);
  }
  return hash.value();
}

}  // namespace lcab::cp
