#include "cp/proof/presented.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp::proof {
namespace {

// The tokens as rows in ascending order.
TokenSet SetOf(const Tokens& tokens) {
  std::vector<TokenPiece> pieces;
  int64_t row = 0;
  for (const Interval& run : tokens) {
    pieces.push_back({.first = run.begin, .stride = 1, .count = run.size(), .local_row = row});
    row += run.size();
  }
  return TokenSet::FromPieces(std::move(pieces), row).value();  // disjoint by their invariant
}

void Append(Tokens& tokens, Interval run) {
  if (run.empty()) return;
  if (!tokens.empty() && tokens.back().end >= run.begin) {
    tokens.back().end = std::max(tokens.back().end, run.end);
  } else {
    tokens.push_back(run);
  }
}

// Calls visit(heads, tokens in a, tokens in b) for each range of heads over which neither changes.
void ForEachRange(const Presented& a, const Presented& b,
                  const std::function<void(Interval, const Tokens&, const Tokens&)>& visit) {
  std::vector<int64_t> edges;
  for (const Presented* presented : {&a, &b}) {
    for (const Presented::Part& part : presented->parts) {
      edges.push_back(part.q_heads.begin);
      edges.push_back(part.q_heads.end);
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  const auto at = [](const Presented& presented, int64_t head) {
    for (const Presented::Part& part : presented.parts) {
      if (part.q_heads.Contains(head)) return part.tokens;
    }
    return Tokens{};
  };
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    visit({edges[i], edges[i + 1]}, at(a, edges[i]), at(b, edges[i]));
  }
}

// One query head of each mask group among `q_heads`: pairs of the others are the same.
std::vector<int64_t> HeadOfEachGroup(const Problem& problem, Interval q_heads) {
  std::vector<int64_t> heads;
  int64_t group = -1;
  for (int64_t head = q_heads.begin; head < q_heads.end; ++head) {
    if (problem.MaskGroupOf(head) == group) continue;
    group = problem.MaskGroupOf(head);
    heads.push_back(head);
  }
  return heads;
}

int64_t Pairs(const Problem& problem, int64_t head, bool own_is_query, const Tokens& own,
              const Tokens& other) {
  return own_is_query ? PairsOf(problem, head, own, other) : PairsOf(problem, head, other, own);
}

}  // namespace

Tokens TokensOf(const TokenSet& tokens) {
  Tokens result;
  for (const Interval& run : tokens.Intervals()) Append(result, run);
  return result;
}

Tokens Union(const Tokens& a, const Tokens& b) {
  Tokens result;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool first = j == b.size() || (i < a.size() && a[i].begin <= b[j].begin);
    Append(result, first ? a[i++] : b[j++]);
  }
  return result;
}

Tokens Intersection(const Tokens& a, const Tokens& b) {
  Tokens result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    Append(result, {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)});
    a[i].end < b[j].end ? ++i : ++j;
  }
  return result;
}

std::string ToText(const Tokens& tokens) {
  if (tokens.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < tokens.size() && i < 4; ++i) {
    text += fmt::format("[{},{})", tokens[i].begin, tokens[i].end);
  }
  if (tokens.size() > 4) text += fmt::format(" and {} more runs", tokens.size() - 4);
  return text;
}

Presented Restrict(const Presented& presented, Interval q_heads) {
  Presented result;
  for (const Presented::Part& part : presented.parts) {
    const Interval heads{std::max(part.q_heads.begin, q_heads.begin),
                         std::min(part.q_heads.end, q_heads.end)};
    if (!heads.empty()) result.parts.push_back({heads, part.tokens});
  }
  return result;
}

int64_t PairsOf(const Problem& problem, int64_t q_head, const Tokens& queries, const Tokens& keys) {
  if (queries.empty() || keys.empty()) return 0;
  const int64_t kv_head = problem.KvHeadOf(q_head);
  return problem.mask->Restrict(SetOf(queries), SetOf(keys), {kv_head, kv_head + 1}).Area(0);
}

int64_t HeadPresentedTwice(const Problem& problem, const Tokens& own, bool own_is_query,
                           const Presented& a, const Presented& b) {
  int64_t twice = -1;
  ForEachRange(a, b, [&](Interval heads, const Tokens& in_a, const Tokens& in_b) {
    const Tokens common = Intersection(in_a, in_b);
    if (twice >= 0 || common.empty()) return;
    for (const int64_t head : HeadOfEachGroup(problem, heads)) {
      if (twice < 0 && Pairs(problem, head, own_is_query, own, common) > 0) twice = head;
    }
  });
  return twice;
}

Presented Union(const Presented& a, const Presented& b) {
  Presented result;
  ForEachRange(a, b, [&](Interval heads, const Tokens& in_a, const Tokens& in_b) {
    Tokens tokens = Union(in_a, in_b);
    if (tokens.empty()) return;
    if (!result.parts.empty() && result.parts.back().q_heads.end == heads.begin &&
        result.parts.back().tokens == tokens) {
      result.parts.back().q_heads.end = heads.end;
    } else {
      result.parts.push_back({heads, std::move(tokens)});
    }
  });
  return result;
}

int64_t HeadNotComplete(const Problem& problem, const Tokens& own, bool own_is_query,
                        Interval q_heads, const Presented& presented) {
  const int64_t others = own_is_query ? problem.k_tokens() : problem.q_tokens();
  Tokens everything;
  Append(everything, {0, others});
  int64_t incomplete = -1;
  const Presented all{.parts = {{q_heads, everything}}};
  ForEachRange(all, Restrict(presented, q_heads),
               [&](Interval heads, const Tokens&, const Tokens& seen) {
                 if (incomplete >= 0 || seen == everything) return;
                 for (const int64_t head : HeadOfEachGroup(problem, heads)) {
                   if (incomplete < 0 && Pairs(problem, head, own_is_query, own, seen) !=
                                             Pairs(problem, head, own_is_query, own, everything)) {
                     incomplete = head;
                   }
                 }
               });
  return incomplete;
}

}  // namespace lcab::cp::proof
