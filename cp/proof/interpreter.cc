#include "cp/proof/interpreter.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp::proof {
namespace {

constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

template <typename... Arguments>
absl::Status Broken(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// One value over a whole view.
std::vector<Piece> Whole(const View& view, Value value) {
  return {{.rows = {0, RowsOf(view)}, .heads = {0, HeadsOf(view)}, .value = std::move(value)}};
}

Value Result(Tensor tensor, int problem, const TokenSet& tokens, Interval heads, Interval q_heads,
             const TokenSet& presented) {
  Value value{.kind = Value::Kind::kResult,
              .tensor = tensor,
              .problem = problem,
              .tokens = tokens,
              .heads = heads};
  Tokens seen = TokensOf(presented);
  if (!seen.empty() && !q_heads.empty()) value.presented.parts = {{q_heads, std::move(seen)}};
  return value;
}

// What a result without any pair is.
float Nothing(Tensor tensor) { return tensor == Tensor::kLse ? kNoKeys : 0; }

bool HasHoles(const TokenSet& tokens) { return tokens.count() != tokens.rows(); }

}  // namespace

void Interpreter::Begin(Pass pass) {
  pass_ = pass;
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].role == BufferRole::kTemp) contents_.Clear(static_cast<int>(i));
  }
  if (pass == Pass::kBackward) return;
  for (const Held& held : plan_.inputs) {
    contents_.Write(held.view, Whole(held.view, {.kind = Value::Kind::kInput,
                                                 .tensor = held.tensor,
                                                 .problem = held.problem,
                                                 .tokens = held.tokens,
                                                 .heads = held.heads}));
  }
}

absl::Status Interpreter::Run(const Action& action) {
  return std::visit([this](const auto& a) { return Do(a); }, action);
}

absl::Status Interpreter::Store(const View& view, const std::vector<Piece>& pieces) {
  const Buffer& buffer = plan_.buffers[static_cast<size_t>(view.buffer)];
  if (view.rows.empty() || view.heads.empty()) return absl::OkStatus();
  if (buffer.role == BufferRole::kIn) {
    return Broken("it writes {}, an input", Describe(plan_, view));
  }
  // A backward pass may be run again without its forward pass.
  const bool forward_output =
      std::any_of(plan_.forward_outputs.begin(), plan_.forward_outputs.end(),
                  [&](const Held& held) { return held.view.buffer == view.buffer; });
  if (pass_ == Pass::kBackward && (buffer.role == BufferRole::kSaved || forward_output)) {
    return Broken("the backward pass writes {}, which the forward pass left for it",
                  Describe(plan_, view));
  }
  if (buffer.dtype != DType::kFloat32) {
    for (const Piece& piece : pieces) {
      if (piece.value.kind != Value::Kind::kResult) continue;
      if (absl::Status s = CheckComplete(piece.value); !s.ok()) {
        return Broken("a result that is not complete is rounded to {}: {}", Name(buffer.dtype),
                      std::string(s.message()));
      }
    }
  }
  contents_.Write(view, pieces);
  return absl::OkStatus();
}

absl::Status Interpreter::CheckComplete(const Value& value) const {
  const Problem& problem = ProblemAt(value.problem);
  const Interval q_heads = QueryHeadsOf(problem, value.tensor, value.heads);
  const int64_t head = HeadNotComplete(problem, TokensOf(value.tokens), IsByQuery(value.tensor),
                                       q_heads, value.presented);
  if (head < 0) return absl::OkStatus();
  return Broken("{} lacks allowed pairs of query head {}", ToText(value), head);
}

absl::Status Interpreter::ExpectInput(const View& view, Tensor tensor, int problem,
                                      const TokenSet& tokens, Interval heads) const {
  return Expect(view, Value::Kind::kInput, tensor, problem, tokens, heads, false);
}

absl::Status Interpreter::ExpectComplete(const View& view, Tensor tensor, int problem,
                                         const TokenSet& tokens, Interval heads) const {
  const bool delta = tensor == Tensor::kDelta;
  return Expect(view, delta ? Value::Kind::kDelta : Value::Kind::kResult, tensor, problem, tokens,
                heads, !delta);
}

absl::Status Interpreter::Expect(const View& view, Value::Kind kind, Tensor tensor, int problem,
                                 const TokenSet& tokens, Interval heads, bool complete) const {
  const absl::StatusOr<std::vector<Piece>> pieces = contents_.Read(view);
  if (!pieces.ok()) return pieces.status();
  for (const Piece& piece : *pieces) {
    const Value& value = piece.value;
    Value wanted{.kind = kind,
                 .tensor = tensor,
                 .problem = problem,
                 .tokens = tokens.Rows(piece.rows),
                 .heads = {heads.begin + piece.heads.begin, heads.begin + piece.heads.end}};
    if (value.kind == Value::Kind::kConstant) {
      // Padding holds no token, and may hold any number. A result that nothing was added to is
      // right where there is nothing to add.
      if (wanted.tokens.empty() && kind == Value::Kind::kInput) continue;
      if (complete && value.constant == Nothing(tensor)) {
        if (absl::Status s = CheckComplete(wanted); !s.ok()) return s;
        continue;
      }
    }
    if (value.kind != kind || value.tensor != tensor || value.problem != problem ||
        value.tokens != wanted.tokens || value.heads != wanted.heads) {
      return Broken("{} should hold {}, and holds {}", Describe(plan_, view), ToText(wanted),
                    ToText(value));
    }
    if (!complete) continue;
    if (absl::Status s = CheckComplete(value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Do(const Attend& a) {
  const AttendTarget& t = a.target;
  absl::Status s = ExpectInput(a.q, Tensor::kQ, t.problem, t.q_tokens, t.q_heads);
  if (s.ok()) s = ExpectInput(a.k, Tensor::kK, t.problem, t.k_tokens, t.kv_heads);
  if (s.ok()) s = ExpectInput(a.v, Tensor::kV, t.problem, t.k_tokens, t.kv_heads);
  if (!s.ok()) return s;
  const Problem& problem = ProblemAt(t.problem);
  const Tokens queries = TokensOf(t.q_tokens), keys = TokensOf(t.k_tokens);
  int64_t group = -1, pairs = 0;
  for (int64_t head = t.q_heads.begin; head < t.q_heads.end; ++head) {
    if (problem.MaskGroupOf(head) != group) pairs = PairsOf(problem, head, queries, keys);
    group = problem.MaskGroupOf(head);
    area_ += pairs;
  }
  for (const auto& [view, tensor] : {std::pair(&a.out, Tensor::kOut), {&a.lse, Tensor::kLse}}) {
    s = Store(*view, Whole(*view, Result(tensor, t.problem, t.q_tokens, t.q_heads, t.q_heads,
                                         t.k_tokens)));
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Do(const AttendBackward& a) {
  const AttendTarget& t = a.target;
  absl::Status s = ExpectInput(a.q, Tensor::kQ, t.problem, t.q_tokens, t.q_heads);
  if (s.ok()) s = ExpectInput(a.k, Tensor::kK, t.problem, t.k_tokens, t.kv_heads);
  if (s.ok()) s = ExpectInput(a.v, Tensor::kV, t.problem, t.k_tokens, t.kv_heads);
  if (s.ok()) s = ExpectInput(a.dout, Tensor::kDOut, t.problem, t.q_tokens, t.q_heads);
  if (s.ok()) s = ExpectComplete(a.lse, Tensor::kLse, t.problem, t.q_tokens, t.q_heads);
  if (s.ok() && a.delta.used()) {
    s = ExpectComplete(a.delta, Tensor::kDelta, t.problem, t.q_tokens, t.q_heads);
  }
  if (s.ok() && a.out.used()) {
    s = ExpectComplete(a.out, Tensor::kOut, t.problem, t.q_tokens, t.q_heads);
  }
  if (s.ok()) {
    s = Store(a.dq, Whole(a.dq, Result(Tensor::kDQ, t.problem, t.q_tokens, t.q_heads, t.q_heads,
                                       t.k_tokens)));
  }
  if (s.ok()) {
    s = Store(a.dk, Whole(a.dk, Result(Tensor::kDK, t.problem, t.k_tokens, t.kv_heads, t.q_heads,
                                       t.q_tokens)));
  }
  if (s.ok()) {
    s = Store(a.dv, Whole(a.dv, Result(Tensor::kDV, t.problem, t.k_tokens, t.kv_heads, t.q_heads,
                                       t.q_tokens)));
  }
  return s;
}

absl::Status Interpreter::Do(const Delta& a) {
  const absl::StatusOr<std::vector<Piece>> outs = contents_.Read(a.out);
  if (!outs.ok()) return outs.status();
  const absl::StatusOr<std::vector<Piece>> douts = contents_.Read(a.dout);
  if (!douts.ok()) return douts.status();
  std::vector<Piece> deltas;
  for (const auto& [out, dout] : Pair(plan_, *outs, *douts)) {
    const Value& d = dout.value;
    if (d.kind != Value::Kind::kInput || d.tensor != Tensor::kDOut) {
      return Broken("{} should hold dOut, and holds {}", Describe(plan_, a.dout), ToText(d));
    }
    Value o = out.value;
    if (o.kind == Value::Kind::kConstant && o.constant == 0) {
      o = {.kind = Value::Kind::kResult,
           .tensor = Tensor::kOut,
           .problem = d.problem,
           .tokens = d.tokens,
           .heads = d.heads};
    }
    if (o.kind != Value::Kind::kResult || o.tensor != Tensor::kOut || o.problem != d.problem ||
        o.tokens != d.tokens || o.heads != d.heads) {
      return Broken("{} and {} do not belong together", ToText(o), ToText(d));
    }
    if (absl::Status s = CheckComplete(o); !s.ok()) return s;
    deltas.push_back({out.rows,
                      out.heads,
                      {.kind = Value::Kind::kDelta,
                       .tensor = Tensor::kDelta,
                       .problem = d.problem,
                       .tokens = d.tokens,
                       .heads = d.heads}});
  }
  return Store(a.delta, deltas);
}

absl::StatusOr<Value> Interpreter::Sum(const Value& a, const Value& b) const {
  const auto is_nothing = [](const Value& value, const Value& other) {
    return value.kind == Value::Kind::kConstant && other.kind == Value::Kind::kResult &&
           value.constant == Nothing(other.tensor);
  };
  if (is_nothing(a, b)) return b;
  if (is_nothing(b, a)) return a;
  if (a.kind == Value::Kind::kConstant && a == b && (a.constant == 0 || a.constant == kNoKeys)) {
    return a;
  }
  if (a.kind != Value::Kind::kResult || b.kind != Value::Kind::kResult || a.tensor != b.tensor ||
      a.problem != b.problem || a.tokens != b.tokens || a.heads != b.heads) {
    return Broken("{} and {} are not parts of one result", ToText(a), ToText(b));
  }
  const int64_t head = HeadPresentedTwice(ProblemAt(a.problem), TokensOf(a.tokens),
                                          IsByQuery(a.tensor), a.presented, b.presented);
  if (head >= 0) {
    return Broken("pairs of query head {} count twice: {} and {}", head, ToText(a), ToText(b));
  }
  Value sum = a;
  sum.presented = Union(a.presented, b.presented);
  return sum;
}

absl::Status Interpreter::Do(const Merge& a) {
  // out and LSE of each side must tell of the same pairs: both are cut alike and compared.
  std::vector<PiecePair> sides[2];
  const std::pair<const View*, const View*> views[2] = {{&a.out, &a.lse}, {&a.part, &a.part_lse}};
  for (int side = 0; side < 2; ++side) {
    const absl::StatusOr<std::vector<Piece>> outs = contents_.Read(*views[side].first);
    if (!outs.ok()) return outs.status();
    const absl::StatusOr<std::vector<Piece>> lses = contents_.Read(*views[side].second);
    if (!lses.ok()) return lses.status();
    sides[side] = Pair(plan_, *outs, *lses);
    for (const auto& [out, lse] : sides[side]) {
      const bool both_nothing = out.value.kind == Value::Kind::kConstant &&
                                lse.value.kind == Value::Kind::kConstant &&
                                out.value.constant == 0 && lse.value.constant == kNoKeys;
      Value as_out = lse.value;
      as_out.tensor = Tensor::kOut;
      const bool match = lse.value.kind == Value::Kind::kResult &&
                         lse.value.tensor == Tensor::kLse && as_out == out.value;
      if (!both_nothing && !match) {
        return Broken("{} and {} do not tell of the same pairs", ToText(out.value),
                      ToText(lse.value));
      }
    }
  }
  std::vector<Piece> outs, lses;
  for (const PiecePair& own : sides[0]) {
    for (const PiecePair& part : sides[1]) {
      for (const auto& [x, y] : Pair(plan_, {own.a}, {part.a})) {
        absl::StatusOr<Value> sum = Sum(x.value, y.value);
        if (!sum.ok()) return sum.status();
        outs.push_back({x.rows, x.heads, *std::move(sum)});
      }
      for (const auto& [x, y] : Pair(plan_, {own.b}, {part.b})) {
        absl::StatusOr<Value> sum = Sum(x.value, y.value);
        if (!sum.ok()) return sum.status();
        lses.push_back({x.rows, x.heads, *std::move(sum)});
      }
    }
  }
  if (absl::Status s = Store(a.out, outs); !s.ok()) return s;
  return Store(a.lse, lses);
}

absl::Status Interpreter::Do(const Add& a) {
  const absl::StatusOr<std::vector<Piece>> to = contents_.Read(a.to);
  if (!to.ok()) return to.status();
  const absl::StatusOr<std::vector<Piece>> from = contents_.Read(a.from);
  if (!from.ok()) return from.status();
  std::vector<Piece> sums;
  for (const auto& [x, y] : Pair(plan_, *to, *from)) {
    for (const Value* value : {&x.value, &y.value}) {
      if (value->kind == Value::Kind::kResult &&
          (value->tensor == Tensor::kOut || value->tensor == Tensor::kLse)) {
        return Broken("{} is added, where it must be merged", ToText(*value));
      }
    }
    absl::StatusOr<Value> sum = Sum(x.value, y.value);
    if (!sum.ok()) return sum.status();
    sums.push_back({x.rows, x.heads, *std::move(sum)});
  }
  return Store(a.to, sums);
}

absl::Status Interpreter::Do(const Copy& a) {
  const absl::StatusOr<std::vector<Piece>> pieces = contents_.Read(a.from);
  if (!pieces.ok()) return pieces.status();
  return Store(a.to, *pieces);
}

absl::Status Interpreter::Do(const Fill& a) {
  return Store(a.to, Whole(a.to, {.kind = Value::Kind::kConstant, .constant = a.value}));
}

absl::Status Interpreter::Do(const Exchange&) {
  return absl::InternalError("exchanges take two ranks");
}

absl::Status Interpreter::CheckOutputs(Pass pass) const {
  for (const Held& held : plan_.outputs(pass)) {
    if (HasHoles(held.tokens)) {
      return Broken("{} is declared with rows that hold no token", Describe(plan_, held.view));
    }
    absl::Status s = ExpectComplete(held.view, held.tensor, held.problem, held.tokens, held.heads);
    if (!s.ok()) return Broken("output {}: {}", Name(held.tensor), std::string(s.message()));
  }
  return absl::OkStatus();
}

}  // namespace lcab::cp::proof
