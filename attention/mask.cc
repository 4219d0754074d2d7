// Queries on masks: each finds the bands that touch what was asked and adds up closed forms.

#include "attention/mask.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "attention/band_tree.h"
#include "attention/mask_group.h"
#include "fmt/format.h"

namespace lcab {
namespace {

constexpr Interval kEverything{0, Mask::kMaxTokens};

// Calls visit(Interval) for the parts of `range` whose blocks are selected, ascending. `edges` are
// those of the axis that the range lies on; selected(block) tells of a block between them.
template <typename Selected, typename Visit>
void ForEachSelected(const std::vector<int64_t>& edges, Interval range, Selected&& selected,
                     Visit&& visit) {
  if (range.empty()) return;
  Interval run{range.begin, range.begin};  // selected so far, not yet visited
  for (auto block = static_cast<size_t>(BlockOf(edges, range.begin)); run.end < range.end;
       ++block) {
    const int64_t end = std::min(edges[block + 1], range.end);
    if (selected(static_cast<int64_t>(block))) {
      run.end = end;
      continue;
    }
    if (!run.empty()) visit(run);
    run = {end, end};
  }
  if (!run.empty()) visit(run);
}

template <typename Visit>
void ForEachSelectedKeys(const BlockMap& map, int64_t row, Interval keys, Visit&& visit) {
  ForEachSelected(
      map.column_edges, keys, [&](int64_t column) { return map.Selected(row, column); }, visit);
}

template <typename Visit>
void ForEachSelectedRows(const BlockMap& map, int64_t column, Interval rows, Visit&& visit) {
  ForEachSelected(
      map.row_edges, rows, [&](int64_t row) { return map.Selected(row, column); }, visit);
}

// Sorts intervals that are disjoint and joins those that touch.
void SortAndJoin(std::vector<Interval>* intervals) {
  std::sort(intervals->begin(), intervals->end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  size_t last = 0;
  for (size_t i = 1; i < intervals->size(); ++i) {
    if ((*intervals)[i].begin == (*intervals)[last].end) {
      (*intervals)[last].end = (*intervals)[i].end;
    } else {
      (*intervals)[++last] = (*intervals)[i];
    }
  }
  if (!intervals->empty()) intervals->resize(last + 1);
}

// At most `limit` of the sorted values that lie in [0, end), each once, spread evenly.
std::vector<int64_t> Thin(std::vector<int64_t> values, int64_t end, int64_t limit) {
  std::erase_if(values, [end](int64_t value) { return value < 0 || value >= end; });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  const auto count = static_cast<int64_t>(values.size());
  if (count <= limit) return values;
  std::vector<int64_t> thinned;
  for (int64_t i = 0; i < limit; ++i) {
    const int64_t index = limit == 1 ? 0 : i * (count - 1) / (limit - 1);
    thinned.push_back(values[static_cast<size_t>(index)]);
  }
  return thinned;
}

// Rows or keys on both sides of an edge.
void AddEdge(int64_t edge, std::vector<int64_t>* values) {
  values->push_back(edge - 1);
  values->push_back(edge);
}

// A band of unknown origin, brought near enough to the tokens that sums cannot overflow.
Band Clamp(const Band& band, int64_t q_tokens, int64_t k_tokens) {
  constexpr int64_t kFar = 2 * Mask::kMaxTokens;
  Band clamped{std::clamp<int64_t>(band.q0, 0, q_tokens),
               std::clamp<int64_t>(band.q1, 0, q_tokens),
               std::clamp<int64_t>(band.k0, 0, k_tokens),
               std::clamp<int64_t>(band.k1, 0, k_tokens),
               band.lower,
               band.upper};
  if (clamped.lower) clamped.lower = std::clamp(*clamped.lower, -kFar, kFar);
  if (clamped.upper) clamped.upper = std::clamp(*clamped.upper, -kFar, kFar);
  return clamped;
}

}  // namespace

Mask::Group::Group(std::vector<Band> canonical, std::optional<BlockMap> map)
    : bands(std::move(canonical)), block_map(std::move(map)), tree(bands) {
  if (block_map) {
    area = AreaIn({0, block_map->row_edges.back()}, {0, block_map->column_edges.back()});
  } else {
    for (const Band& band : bands) area += AreaOf(band);
  }
}

int64_t Mask::Group::AreaOfBands(Interval rows, Interval keys) const {
  int64_t sum = 0;
  tree.ForEachTouching(rows, keys,
                       [&](const Band& band) { sum += AreaOf(Clip(band, rows, keys)); });
  return sum;
}

int64_t Mask::Group::AreaIn(Interval rows, Interval keys) const {
  if (rows.empty() || keys.empty()) return 0;
  if (!block_map) return AreaOfBands(rows, keys);
  // A rectangle, which most masks with a map have: what is selected counts, without a search.
  const bool rectangle = bands.size() == 1 && !bands.front().lower && !bands.front().upper;
  int64_t sum = 0;
  for (int64_t r = BlockOf(block_map->row_edges, rows.begin);
       r < block_map->rows() && block_map->RowTokens(r).begin < rows.end; ++r) {
    const Interval block = block_map->RowTokens(r);
    const Interval part{std::max(block.begin, rows.begin), std::min(block.end, rows.end)};
    if (rectangle) {
      const Band band = Clip(bands.front(), part, keys);
      int64_t count = 0;
      ForEachSelectedKeys(*block_map, r, {band.k0, band.k1},
                          [&](Interval selected) { count += selected.size(); });
      sum += count * (band.q1 - band.q0);
      continue;
    }
    ForEachSelectedKeys(*block_map, r, keys,
                        [&](Interval selected) { sum += AreaOfBands(part, selected); });
  }
  return sum;
}

Mask::Mask() : Mask(0, 0, {MakeGroup({}, std::nullopt)}) {}

Mask::Mask(int64_t q_tokens, int64_t k_tokens, std::vector<std::shared_ptr<const Group>> groups)
    : q_tokens_(q_tokens), k_tokens_(k_tokens), groups_(std::move(groups)) {}

std::shared_ptr<const Mask::Group> Mask::MakeGroup(std::vector<Band> canonical,
                                                   std::optional<BlockMap> block_map) {
  return std::make_shared<const Group>(std::move(canonical), std::move(block_map));
}

absl::StatusOr<Mask> Mask::Create(int64_t q_tokens, int64_t k_tokens,
                                  std::vector<HeadGroup> groups) {
  if (q_tokens < 0 || k_tokens < 0 || q_tokens > kMaxTokens || k_tokens > kMaxTokens) {
    return absl::InvalidArgumentError(fmt::format(
        "a mask of {} x {} tokens: counts must be in 0..{}", q_tokens, k_tokens, kMaxTokens));
  }
  if (groups.empty()) {
    return absl::InvalidArgumentError("a mask needs one group of heads, or one for each kv head");
  }
  std::vector<std::shared_ptr<const Group>> made;
  for (HeadGroup& group : groups) {
    for (Band& band : group.bands) band = Clamp(band, q_tokens, k_tokens);
    absl::StatusOr<std::vector<Band>> bands = Canonical(std::move(group.bands));
    absl::Status status = bands.status();
    if (status.ok() && group.block_map) status = Validate(*group.block_map, q_tokens, k_tokens);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("mask, group {}: {}", made.size(), std::string(status.message())));
    }
    made.push_back(MakeGroup(*std::move(bands), std::move(group.block_map)));
  }
  return Mask(q_tokens, k_tokens, std::move(made));
}

absl::StatusOr<Mask> Mask::FromSlices(int64_t q_tokens, int64_t k_tokens,
                                      std::span<const Slice> slices) {
  HeadGroup group;
  for (const Slice& slice : slices) {
    for (const int64_t x : {slice.q0, slice.q1, slice.k0, slice.k1}) {
      if (x < -2 * kMaxTokens || x > 2 * kMaxTokens) {
        return absl::InvalidArgumentError(fmt::format("slice coordinate {} is out of range", x));
      }
    }
    if (slice.q0 > slice.q1 || slice.k0 > slice.k1) {
      return absl::InvalidArgumentError(
          fmt::format("slice q[{},{}) x k[{},{}) ends before it begins", slice.q0, slice.q1,
                      slice.k0, slice.k1));
    }
    group.bands.push_back(ToBand(slice));
  }
  std::vector<HeadGroup> groups;
  groups.push_back(std::move(group));
  return Create(q_tokens, k_tokens, std::move(groups));
}

std::span<const Band> Mask::bands(int64_t g) const { return group(g).bands; }

const BlockMap* Mask::block_map(int64_t g) const {
  return group(g).block_map ? &*group(g).block_map : nullptr;
}

void Mask::RowKeys(int64_t g, int64_t row, std::vector<Interval>* keys) const {
  keys->clear();
  if (row < 0 || row >= q_tokens_) return;
  const std::optional<BlockMap>& map = group(g).block_map;
  const int64_t block = map ? BlockOf(map->row_edges, row) : 0;
  group(g).tree.ForEachTouching({row, row + 1}, kEverything, [&](const Band& band) {
    const Interval allowed = KeysOf(band, row);
    if (map) {
      ForEachSelectedKeys(*map, block, allowed, [&](Interval part) { keys->push_back(part); });
    } else {
      keys->push_back(allowed);
    }
  });
  SortAndJoin(keys);
}

void Mask::ColumnRows(int64_t g, int64_t key, std::vector<Interval>* rows) const {
  rows->clear();
  if (key < 0 || key >= k_tokens_) return;
  const std::optional<BlockMap>& map = group(g).block_map;
  const int64_t block = map ? BlockOf(map->column_edges, key) : 0;
  group(g).tree.ForEachTouching(kEverything, {key, key + 1}, [&](const Band& band) {
    const Interval allowed = RowsOf(band, key);
    if (map) {
      ForEachSelectedRows(*map, block, allowed, [&](Interval part) { rows->push_back(part); });
    } else {
      rows->push_back(allowed);
    }
  });
  SortAndJoin(rows);
}

int64_t Mask::RowCount(int64_t g, int64_t row) const {
  return Area(g, {row, row + 1}, kEverything);
}

int64_t Mask::ColumnCount(int64_t g, int64_t key) const {
  return Area(g, kEverything, {key, key + 1});
}

bool Mask::Allows(int64_t g, int64_t row, int64_t key) const {
  return Area(g, {row, row + 1}, {key, key + 1}) == 1;
}

int64_t Mask::Area(int64_t g) const { return group(g).area; }

int64_t Mask::Area(int64_t g, Interval rows, Interval keys) const {
  return group(g).AreaIn({std::max<int64_t>(rows.begin, 0), std::min(rows.end, q_tokens_)},
                         {std::max<int64_t>(keys.begin, 0), std::min(keys.end, k_tokens_)});
}

TileKind Mask::Classify(int64_t g, Interval rows, Interval keys) const {
  const int64_t area = Area(g, rows, keys);
  if (area == 0) return TileKind::kEmpty;
  const bool sticks_out =
      rows.begin < 0 || rows.end > q_tokens_ || keys.begin < 0 || keys.end > k_tokens_;
  return !sticks_out && area == rows.size() * keys.size() ? TileKind::kFull : TileKind::kPartial;
}

std::vector<int64_t> Mask::EdgeRows(int64_t g, int64_t limit) const {
  std::vector<int64_t> rows;
  for (const Band& band : bands(g)) {
    AddEdge(band.q0, &rows);
    AddEdge(band.q1, &rows);
    if (band.lower) AddEdge(band.k0 - *band.lower, &rows);
    if (band.upper) AddEdge(band.k1 - *band.upper, &rows);
  }
  if (const BlockMap* map = block_map(g)) {
    for (const int64_t edge : map->row_edges) AddEdge(edge, &rows);
  }
  return Thin(std::move(rows), q_tokens_, limit);
}

std::vector<int64_t> Mask::EdgeKeys(int64_t g, int64_t limit) const {
  std::vector<int64_t> keys;
  for (const Band& band : bands(g)) {
    AddEdge(band.k0, &keys);
    AddEdge(band.k1, &keys);
    if (band.lower) AddEdge(band.q1 + *band.lower, &keys);
    if (band.upper) AddEdge(band.q0 + *band.upper, &keys);
  }
  if (const BlockMap* map = block_map(g)) {
    for (const int64_t edge : map->column_edges) AddEdge(edge, &keys);
  }
  return Thin(std::move(keys), k_tokens_, limit);
}

}  // namespace lcab
