#include "measurement/row_selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "attention/mask.h"
#include "attention/philox.h"
#include "measurement/row_statistics.h"

namespace lcab::measurement {
namespace {

constexpr int64_t kStratum = 64;
constexpr int64_t kMostEdges = 32;  // of one head

enum Purpose : uint32_t { kDrawRows = 0x524f5753, kDrawKeys = 0x4b455953, kDrawHeads = 0x48454144 };

// One token in every `step`-th stratum of 64, from a stratum that differs by head, and some edges.
std::vector<int64_t> Draw(int64_t tokens, int64_t head, int64_t step, std::vector<int64_t> edges,
                          PhiloxStream& random) {
  std::vector<int64_t> chosen;
  const int64_t strata = (tokens + kStratum - 1) / kStratum;
  for (int64_t stratum = head % std::max<int64_t>(1, std::min(step, strata)); stratum < strata;
       stratum += step) {
    const int64_t begin = stratum * kStratum;
    const int64_t size = std::min(kStratum, tokens - begin);
    chosen.push_back(begin + static_cast<int64_t>(random.Below(static_cast<uint64_t>(size))));
  }
  for (size_t i = 0; i < edges.size(); i += static_cast<size_t>(step)) chosen.push_back(edges[i]);
  if (tokens > 0) {
    chosen.push_back(0);
    chosen.push_back(tokens - 1);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// Edges, and the rows before them: an edge that is off by one shows on either side.
std::vector<int64_t> WithNeighbours(std::vector<int64_t> edges, int64_t tokens) {
  const size_t count = edges.size();
  for (size_t i = 0; i < count; ++i) edges.push_back(edges[i] - 1);
  std::erase_if(edges, [&](int64_t token) { return token < 0 || token >= tokens; });
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

// Multiply-adds of comparing these rows (or keys) of all heads.
double CostOf(const Problem& problem, Pass pass, const RowSelection& selection) {
  const auto dims = static_cast<double>(problem.qk_head_dim + problem.v_head_dim);
  const double of_row = pass == Pass::kForward ? dims : 1.5 * dims;
  double cost = 0;
  for (size_t head = 0; head < selection.rows.size(); ++head) {
    const int64_t group = problem.MaskGroupOf(static_cast<int64_t>(head));
    for (const int64_t row : selection.rows[head]) {
      cost += static_cast<double>(problem.mask->RowCount(group, row)) * of_row;
    }
  }
  for (size_t head = 0; head < selection.keys.size(); ++head) {
    const int64_t group = problem.mask->GroupOf(static_cast<int64_t>(head));
    for (const int64_t key : selection.keys[head]) {
      cost += static_cast<double>(problem.mask->ColumnCount(group, key)) *
              static_cast<double>(problem.heads_per_kv()) * 2 * dims;
    }
  }
  return 2 * cost;  // exact, and how far rounding takes it
}

// The kv heads whose keys are compared.
std::vector<int64_t> HeadsWithKeys(const Problem& problem, uint64_t seed,
                                   const SelectionBudget& budget) {
  std::vector<int64_t> heads(static_cast<size_t>(problem.kv_heads));
  std::iota(heads.begin(), heads.end(), 0);
  PhiloxStream random(seed, kDrawHeads);
  for (size_t i = heads.size(); i > 1; --i) std::swap(heads[i - 1], heads[random.Below(i)]);
  double cost = 0;
  size_t kept = 0;
  for (; kept < heads.size(); ++kept) {
    const int64_t pairs = problem.mask->Area(problem.mask->GroupOf(heads[kept]));
    const double of_head = static_cast<double>(problem.heads_per_kv()) *
                           static_cast<double>(RowStatisticsCost(problem, pairs));
    if (of_head > budget.statistics_ceiling) break;
    cost += of_head;
    if (kept > 0 && cost > budget.statistics) break;
  }
  heads.resize(kept);
  return heads;
}

}  // namespace

int64_t RowSelection::rows_selected() const {
  int64_t count = 0;
  for (const auto& of_head : rows) count += static_cast<int64_t>(of_head.size());
  return count;
}

int64_t RowSelection::keys_selected() const {
  int64_t count = 0;
  for (const auto& of_head : keys) count += static_cast<int64_t>(of_head.size());
  return count;
}

RowSelection SelectRows(const Problem& problem, Pass pass, uint64_t seed,
                        const SelectionBudget& budget) {
  const Mask& mask = *problem.mask;
  const std::vector<int64_t> heads_with_keys =
      pass == Pass::kBackward ? HeadsWithKeys(problem, seed, budget) : std::vector<int64_t>();
  std::vector<std::vector<int64_t>> row_edges, key_edges;
  for (int64_t group = 0; group < mask.groups(); ++group) {
    row_edges.push_back(WithNeighbours(mask.EdgeRows(group, kMostEdges / 2), problem.q_tokens()));
    key_edges.push_back(WithNeighbours(mask.EdgeKeys(group, kMostEdges / 2), problem.k_tokens()));
  }

  const auto select = [&](int64_t step) {
    RowSelection selection;
    PhiloxStream rows(seed, kDrawRows), keys(seed, kDrawKeys);
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      selection.rows.push_back(Draw(problem.q_tokens(), head, step,
                                    row_edges[static_cast<size_t>(problem.MaskGroupOf(head))],
                                    rows));
    }
    selection.keys.resize(static_cast<size_t>(problem.kv_heads));
    for (const int64_t head : heads_with_keys) {
      selection.keys[static_cast<size_t>(head)] = Draw(
          problem.k_tokens(), head, step, key_edges[static_cast<size_t>(mask.GroupOf(head))], keys);
    }
    return selection;
  };
  RowSelection selection = select(1);
  const double cost = CostOf(problem, pass, selection);
  if (cost > budget.reference) {
    selection = select(static_cast<int64_t>(std::ceil(cost / budget.reference)));
  }
  return selection;
}

}  // namespace lcab::measurement
