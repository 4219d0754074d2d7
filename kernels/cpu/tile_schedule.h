// Which keys each tile of query rows has to visit, compiled once from a mask: the one place where
// cpu_tiled looks at masks. What no row of a tile sees is not in it, so time follows the area.
//
// Rows here are the query rows of all heads that share a kv head: row r is token r / heads_per_kv,
// head r % heads_per_kv of the group. A tile's heads thus share each key that is loaded, and a few
// tokens of many heads fill a tile.

#ifndef LCAB_KERNELS_CPU_TILE_SCHEDULE_H_
#define LCAB_KERNELS_CPU_TILE_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attention/mask.h"

namespace lcab {

// Sizes that an instruction set prefers. `keys` is a multiple of `panel`; `keys` < 2^15.
struct TileShape {
  int64_t rows = 0;   // of a tile of queries
  int64_t panel = 0;  // keys that are computed together: every span begins at a multiple of it
  int64_t keys = 0;   // of a block of keys
};

// Keys [first_key, first_key + keys) of a tile; keys is a multiple of the panel, and may reach
// beyond the last key (then the span has bounds).
struct KeySpan {
  static constexpr int64_t kFull = -1;  // every row sees every key

  int64_t first_key = 0;
  int64_t keys = 0;
  // Else where the rows' intervals begin in bounds(): row r of the tile sees keys
  // first_key + [bounds[r], bounds[rows + r]). Such a span lies in one block of keys.
  int64_t bounds = kFull;
};

class TileSchedule {
 public:
  // For one group of the mask. Time follows the intervals of keys of all rows.
  TileSchedule(const Mask& mask, int64_t group, int64_t heads_per_kv, const TileShape& shape);

  int64_t tiles() const { return static_cast<int64_t>(first_span_.size()) - 1; }
  // In ascending order of keys. A row's keys lie in different spans at most once.
  std::span<const KeySpan> Spans(int64_t tile) const {
    return std::span(spans_).subspan(
        static_cast<size_t>(first_span_[static_cast<size_t>(tile)]),
        static_cast<size_t>(first_span_[static_cast<size_t>(tile) + 1] -
                            first_span_[static_cast<size_t>(tile)]));
  }
  const int16_t* Bounds(const KeySpan& span) const {
    return span.bounds == KeySpan::kFull ? nullptr : bounds_.data() + span.bounds;
  }
  // Keys that a tile visits: its cost. At least the pairs of any of its rows.
  int64_t VisitedKeys(int64_t tile) const;
  int64_t bytes() const;

 private:
  std::vector<int64_t> first_span_{0};  // of each tile, and the end
  std::vector<KeySpan> spans_;
  std::vector<int16_t> bounds_;
};

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_TILE_SCHEDULE_H_
