#include "cp/proof/contents.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp::proof {
namespace {

Interval Common(Interval a, Interval b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

Interval Shift(Interval interval, int64_t by) { return {interval.begin + by, interval.end + by}; }

// The part of a piece inside a rectangle of the same coordinates.
std::optional<Piece> Cut(const RankPlan& plan, const Piece& piece, Interval rows, Interval heads) {
  const Interval r = Common(piece.rows, rows), h = Common(piece.heads, heads);
  if (r.empty() || h.empty()) return std::nullopt;
  Piece cut{.rows = r, .heads = h, .value = piece.value};
  Value& value = cut.value;
  if (value.kind == Value::Kind::kConstant || (r == piece.rows && h == piece.heads)) return cut;
  value.tokens = value.tokens.Rows(Shift(r, -piece.rows.begin));
  const int64_t first = value.heads.begin + h.begin - piece.heads.begin;
  value.heads = {first, first + h.size()};
  if (value.kind == Value::Kind::kResult) {
    const Problem& problem = plan.problems[static_cast<size_t>(value.problem)];
    value.presented = Restrict(value.presented, QueryHeadsOf(problem, value.tensor, value.heads));
  }
  return cut;
}

// Calls visit(rows of the buffer, heads of the buffer, first row of the view, first head of it).
template <typename Visit>
void ForEachRun(const View& view, const Visit& visit) {
  int64_t row = 0;
  for (const Interval& rows : view.rows) {
    int64_t head = 0;
    for (const Interval& heads : view.heads) {
      visit(rows, heads, row, head);
      head += heads.size();
    }
    row += rows.size();
  }
}

}  // namespace

std::string ToText(const Value& value) {
  if (value.kind == Value::Kind::kConstant) return fmt::format("the constant {}", value.constant);
  std::string text =
      fmt::format("{} of tokens {}, heads [{},{})", Name(value.tensor),
                  ToText(TokensOf(value.tokens)), value.heads.begin, value.heads.end);
  if (value.kind != Value::Kind::kResult) return text;
  const std::string_view other = IsByQuery(value.tensor) ? "keys" : "queries";
  for (const Presented::Part& part : value.presented.parts) {
    text += fmt::format(", having seen {} {} for query heads [{},{})", other, ToText(part.tokens),
                        part.q_heads.begin, part.q_heads.end);
  }
  return text;
}

bool IsByQuery(Tensor tensor) {
  return tensor != Tensor::kK && tensor != Tensor::kV && tensor != Tensor::kDK &&
         tensor != Tensor::kDV;
}

Interval QueryHeadsOf(const Problem& problem, Tensor tensor, Interval heads) {
  if (IsByQuery(tensor)) return heads;
  return {heads.begin * problem.heads_per_kv(), heads.end * problem.heads_per_kv()};
}

std::vector<PiecePair> Pair(const RankPlan& plan, const std::vector<Piece>& a,
                            const std::vector<Piece>& b) {
  std::vector<PiecePair> pairs;
  for (const Piece& x : a) {
    for (const Piece& y : b) {
      std::optional<Piece> of_x = Cut(plan, x, y.rows, y.heads);
      std::optional<Piece> of_y = Cut(plan, y, x.rows, x.heads);
      if (of_x && of_y) pairs.push_back({*std::move(of_x), *std::move(of_y)});
    }
  }
  return pairs;
}

Contents::Contents(const RankPlan& plan)
    : plan_(plan), cells_(plan.buffers.size()), same_memory_(plan.buffers.size()) {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    for (size_t j = 0; j < plan.buffers.size(); ++j) {
      const Buffer& a = plan.buffers[i];
      const Buffer& b = plan.buffers[j];
      const Interval shared =
          Common({a.offset, a.offset + a.bytes()}, {b.offset, b.offset + b.bytes()});
      if (i != j && !shared.empty()) {
        same_memory_[i].push_back(static_cast<int>(j));
      }
    }
  }
}

absl::StatusOr<std::vector<Piece>> Contents::Read(const View& view) const {
  std::vector<Piece> pieces;
  int64_t found = 0;
  ForEachRun(view, [&](Interval rows, Interval heads, int64_t row, int64_t head) {
    for (const Cell& cell : cells_[static_cast<size_t>(view.buffer)]) {
      std::optional<Piece> piece = Cut(plan_, cell, rows, heads);
      if (!piece) continue;
      found += piece->rows.size() * piece->heads.size();
      piece->rows = Shift(piece->rows, row - rows.begin);
      piece->heads = Shift(piece->heads, head - heads.begin);
      pieces.push_back(*std::move(piece));
    }
  });
  if (found == RowsOf(view) * HeadsOf(view)) return pieces;
  return absl::FailedPreconditionError(fmt::format(
      "{} is read, but {} of its {} rows x heads hold nothing: never written, or "
      "overwritten by a buffer in the same memory",
      Describe(plan_, view), RowsOf(view) * HeadsOf(view) - found, RowsOf(view) * HeadsOf(view)));
}

void Contents::Write(const View& view, const std::vector<Piece>& pieces) {
  if (view.rows.empty() || view.heads.empty()) return;
  for (const int other : same_memory_[static_cast<size_t>(view.buffer)]) Clear(other);
  ForEachRun(view, [&](Interval rows, Interval heads, int64_t row, int64_t head) {
    Erase(view.buffer, rows, heads);
    for (const Piece& piece : pieces) {
      std::optional<Piece> cell =
          Cut(plan_, piece, Shift(rows, row - rows.begin), Shift(heads, head - heads.begin));
      if (!cell) continue;
      cell->rows = Shift(cell->rows, rows.begin - row);
      cell->heads = Shift(cell->heads, heads.begin - head);
      cells_[static_cast<size_t>(view.buffer)].push_back(*std::move(cell));
    }
  });
}

void Contents::Erase(int buffer, Interval rows, Interval heads) {
  std::vector<Cell> kept;
  for (const Cell& cell : cells_[static_cast<size_t>(buffer)]) {
    const Interval r = Common(cell.rows, rows), h = Common(cell.heads, heads);
    if (r.empty() || h.empty()) {
      kept.push_back(cell);
      continue;
    }
    // What is left around the rectangle: above, below, and to either side of it.
    const std::pair<Interval, Interval> around[] = {
        {{cell.rows.begin, r.begin}, cell.heads},
        {{r.end, cell.rows.end}, cell.heads},
        {r, {cell.heads.begin, h.begin}},
        {r, {h.end, cell.heads.end}},
    };
    for (const auto& [left_rows, left_heads] : around) {
      if (std::optional<Cell> left = Cut(plan_, cell, left_rows, left_heads)) {
        kept.push_back(*std::move(left));
      }
    }
  }
  cells_[static_cast<size_t>(buffer)] = std::move(kept);
}

}  // namespace lcab::cp::proof
