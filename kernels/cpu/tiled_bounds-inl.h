// What the rows of a tile see of a span of keys, in the forms that the inner loops ask for.
// Included once for each instruction set.

#if defined(LCAB_KERNELS_CPU_TILED_BOUNDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LCAB_KERNELS_CPU_TILED_BOUNDS_INL_H_
#undef LCAB_KERNELS_CPU_TILED_BOUNDS_INL_H_
#else
#define LCAB_KERNELS_CPU_TILED_BOUNDS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/tiled_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

struct KeyRange {
  int64_t begin = 0, end = 0;  // of the span
};
struct VectorRange {
  int begin = 0, end = 0;  // of the tile's vectors of rows
};

class SpanBounds {
 public:
  // `bounds` as in KeySpan.
  HWY_INLINE explicit SpanBounds(const int16_t* HWY_RESTRICT bounds) {
    for (int64_t row = 0; row < kTileRows; ++row) {
      lower_[row] = static_cast<float>(bounds[row]);
      upper_[row] = static_cast<float>(bounds[kTileRows + row]);
    }
    for (int64_t block = 0; block < kTileRows / kPanel; ++block) {
      blocks_[block] = Hull(bounds, block * kPanel, kPanel);
    }
    // A block of rows that spans vectors reads what all of them see.
    constexpr int64_t kGroup = kLanes < kPanel ? kPanel : kLanes;
    for (int n = 0; n < kTileVectors; ++n) {
      const KeyRange hull = Hull(bounds, n * kLanes / kGroup * kGroup, kGroup);
      vectors_[n] = {hull.begin / kPanel * kPanel, (hull.end + kPanel - 1) / kPanel * kPanel};
      cores_[n] = Core(bounds, n * kLanes, kLanes);
    }
  }

  // Lanes of vector n whose rows see the key.
  HWY_INLINE hn::Mask<VectorTag> Allows(int n, int64_t key) const {
    const VectorTag tag;
    const Vector at = hn::Set(tag, static_cast<float>(key));
    return hn::And(hn::Ge(at, hn::Load(tag, lower_ + n * kLanes)),
                   hn::Lt(at, hn::Load(tag, upper_ + n * kLanes)));
  }
  // What any row of vector n sees, and of vectors that share a block of kPanel rows with it, in
  // whole panels.
  KeyRange KeysOfVector(int n) const { return vectors_[n]; }
  // What any of rows [row, row + kPanel) sees; row is a multiple of kPanel.
  KeyRange KeysOfRows(int64_t row) const { return blocks_[row / kPanel]; }
  // The vectors between the first and the last of which a row sees part of this panel.
  VectorRange VectorsOf(int64_t panel_key) const {
    VectorRange range;
    for (int n = 0; n < kTileVectors; ++n) {
      if (vectors_[n].begin > panel_key || vectors_[n].end <= panel_key) continue;
      if (range.end == 0) range.begin = n;
      range.end = n + 1;
    }
    return range;
  }

  // Whether all rows of these vectors see the whole panel: then no score of it has to be hidden.
  bool AllSee(VectorRange vectors, int64_t panel_key) const {
    for (int n = vectors.begin; n < vectors.end; ++n) {
      if (cores_[n].begin > panel_key || cores_[n].end < panel_key + kPanel) return false;
    }
    return true;
  }

 private:
  // What all of the rows see.
  static KeyRange Core(const int16_t* bounds, int64_t first, int64_t count) {
    KeyRange core = {bounds[first], bounds[kTileRows + first]};
    for (int64_t row = first + 1; row < first + count; ++row) {
      core.begin = std::max<int64_t>(core.begin, bounds[row]);
      core.end = std::min<int64_t>(core.end, bounds[kTileRows + row]);
    }
    return core;
  }
  // From the first key that any of the rows sees to the last.
  static KeyRange Hull(const int16_t* bounds, int64_t first, int64_t count) {
    KeyRange hull;
    for (int64_t row = first; row < first + count; ++row) {
      const int64_t lower = bounds[row], upper = bounds[kTileRows + row];
      if (lower == upper) continue;
      hull = hull.end == 0 ? KeyRange{lower, upper}
                           : KeyRange{std::min(hull.begin, lower), std::max(hull.end, upper)};
    }
    return hull;
  }

  HWY_ALIGN float lower_[kTileRows];
  HWY_ALIGN float upper_[kTileRows];
  KeyRange blocks_[kTileRows / kPanel];
  KeyRange vectors_[kTileVectors];
  KeyRange cores_[kTileVectors];
};

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LCAB_KERNELS_CPU_TILED_BOUNDS_INL_H_
