#include "kernels/cpu/tile_schedule.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace lcab {
namespace {

int64_t RoundDown(int64_t x, int64_t multiple) { return x / multiple * multiple; }
int64_t RoundUp(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

// Consecutive tokens of a tile with the same keys.
struct SameKeys {
  int64_t first_row = 0, end_row = 0;  // of the tile
  std::vector<Interval> keys;
  size_t next = 0;  // the first interval that does not end before where the sweep is
};

// Builds the spans of one tile after the other.
class SpanBuilder {
 public:
  SpanBuilder(const TileShape& shape, std::vector<KeySpan>* spans, std::vector<int16_t>* bounds)
      : shape_(shape), spans_(*spans), bounds_(*bounds) {}

  // The rows of the next tile, in order.
  void AddRows(int64_t first_row, int64_t end_row, const std::vector<Interval>& keys) {
    if (used_ > 0 && rows_[used_ - 1].keys == keys) {
      rows_[used_ - 1].end_row = end_row;
      return;
    }
    if (used_ == rows_.size()) rows_.emplace_back();
    rows_[used_].first_row = first_row;
    rows_[used_].end_row = end_row;
    rows_[used_].keys = keys;
    rows_[used_].next = 0;
    ++used_;
  }

  void FinishTile() {
    Count();
    // Walk over what any row sees, block by block. Whole blocks that all rows see become one long
    // span; the rest of a block becomes a span of its own, or several where there are gaps.
    size_t full = 0;
    for (const Interval& any : any_) {
      int64_t key = RoundDown(any.begin, shape_.panel);
      while (key < any.end) {
        const int64_t block_end = RoundDown(key, shape_.keys) + shape_.keys;
        while (full < all_.size() && all_[full].end <= key) ++full;
        const bool whole = key % shape_.keys == 0 && full < all_.size() &&
                           all_[full].begin <= key && all_[full].end >= block_end;
        if (whole) {
          Flush();
          const int64_t end = RoundDown(all_[full].end, shape_.keys);
          spans_.push_back({key, end - key, KeySpan::kFull});
          key = end;
          continue;
        }
        const int64_t end = std::min(any.end, block_end);
        const bool joins = !pending_.empty() && pending_.end + 2 * shape_.panel > key &&
                           RoundDown(pending_.begin, shape_.keys) == block_end - shape_.keys;
        if (joins) {
          pending_.end = end;
        } else {
          Flush();
          pending_ = {key, end};
        }
        key = block_end;
      }
    }
    Flush();
    used_ = 0;
  }

 private:
  // any_: what at least one row sees. all_: what all rows see.
  void Count() {
    any_.clear();
    all_.clear();
    if (used_ == 1) {
      any_ = all_ = rows_[0].keys;
      return;
    }
    edges_.clear();
    for (size_t i = 0; i < used_; ++i) {
      for (const Interval& keys : rows_[i].keys) {
        edges_.emplace_back(keys.begin, 1);
        edges_.emplace_back(keys.end, -1);
      }
    }
    std::sort(edges_.begin(), edges_.end());
    const auto everyone = static_cast<int64_t>(used_);
    int64_t seen_by = 0;
    for (size_t i = 0; i < edges_.size();) {
      const int64_t key = edges_[i].first;
      const int64_t before = seen_by;
      for (; i < edges_.size() && edges_[i].first == key; ++i) seen_by += edges_[i].second;
      if (before == 0 && seen_by > 0) any_.push_back({key, key});
      if (before > 0 && seen_by == 0) any_.back().end = key;
      if (before < everyone && seen_by == everyone) all_.push_back({key, key});
      if (before == everyone && seen_by < everyone) all_.back().end = key;
    }
  }

  // Turns the pending range, which lies in one block, into spans in which no row has two intervals.
  void Flush() {
    int64_t begin = pending_.begin;
    while (begin < pending_.end) {
      int64_t end = pending_.end;
      for (size_t i = 0; i < used_; ++i) {
        SameKeys& row = rows_[i];
        while (row.next < row.keys.size() && row.keys[row.next].end <= begin) ++row.next;
        if (row.next + 1 < row.keys.size()) end = std::min(end, row.keys[row.next + 1].begin);
      }
      AddSpan({begin, end});
      begin = end;
    }
    pending_ = {};
  }

  void AddSpan(Interval range) {
    const int64_t first_key = RoundDown(range.begin, shape_.panel);
    const int64_t keys = RoundUp(range.end, shape_.panel) - first_key;
    const bool aligned = range.begin == first_key && range.end == first_key + keys;
    const auto sees_all = [&](const SameKeys& row) {
      return row.next < row.keys.size() && row.keys[row.next].begin <= range.begin &&
             row.keys[row.next].end >= range.end;
    };
    if (aligned &&
        std::all_of(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(used_), sees_all)) {
      spans_.push_back({first_key, keys, KeySpan::kFull});
      return;
    }
    const auto place = static_cast<int64_t>(bounds_.size());
    bounds_.resize(bounds_.size() + static_cast<size_t>(2 * shape_.rows), 0);
    int16_t* const lower = bounds_.data() + place;
    int16_t* const upper = lower + shape_.rows;
    for (size_t i = 0; i < used_; ++i) {
      const SameKeys& row = rows_[i];
      if (row.next == row.keys.size()) continue;
      const Interval seen = {std::max(range.begin, row.keys[row.next].begin),
                             std::min(range.end, row.keys[row.next].end)};
      if (seen.empty()) continue;
      std::fill(lower + row.first_row, lower + row.end_row,
                static_cast<int16_t>(seen.begin - first_key));
      std::fill(upper + row.first_row, upper + row.end_row,
                static_cast<int16_t>(seen.end - first_key));
    }
    spans_.push_back({first_key, keys, place});
  }

  const TileShape shape_;
  std::vector<KeySpan>& spans_;
  std::vector<int16_t>& bounds_;
  std::vector<SameKeys> rows_;  // the first used_ are this tile's; the rest keep their memory
  size_t used_ = 0;
  std::vector<std::pair<int64_t, int>> edges_;
  std::vector<Interval> any_, all_;
  Interval pending_;
};

}  // namespace

TileSchedule::TileSchedule(const Mask& mask, int64_t group, int64_t heads_per_kv,
                           const TileShape& shape) {
  const int64_t rows = mask.q_tokens() * heads_per_kv;
  SpanBuilder builder(shape, &spans_, &bounds_);
  std::vector<Interval> keys;
  int64_t token_of_keys = -1;
  for (int64_t tile_row = 0; tile_row < rows; tile_row += shape.rows) {
    const int64_t tile_end = std::min(rows, tile_row + shape.rows);
    for (int64_t row = tile_row; row < tile_end;) {
      const int64_t token = row / heads_per_kv;
      const int64_t end = std::min(tile_end, (token + 1) * heads_per_kv);
      if (token != token_of_keys) mask.RowKeys(group, token, &keys);
      token_of_keys = token;
      builder.AddRows(row - tile_row, end - tile_row, keys);
      row = end;
    }
    builder.FinishTile();
    first_span_.push_back(static_cast<int64_t>(spans_.size()));
  }
}

int64_t TileSchedule::VisitedKeys(int64_t tile) const {
  int64_t keys = 0;
  for (const KeySpan& span : Spans(tile)) keys += span.keys;
  return keys;
}

int64_t TileSchedule::bytes() const {
  return static_cast<int64_t>(first_span_.size() * sizeof(int64_t) +
                              spans_.size() * sizeof(KeySpan) + bounds_.size() * sizeof(int16_t));
}

}  // namespace lcab
