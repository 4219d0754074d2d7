// The inner loops of cpu_tiled, compiled once for each instruction set and chosen at run time.
//
// All work on one kv head and the query rows of its group (see tile_schedule.h), on packed copies:
//   panels   [panel of P keys][dim][P]: a column of P keys is contiguous, to be broadcast
//   strips   see strip_layout.h: a row's columns are contiguous, to be loaded as vectors
// P is TileShape::panel. Keys are padded with zeros to a multiple of P. Scores are computed
// transposed, [key][row]: then maxima and sums over keys are plain vector operations.

#ifndef LCAB_KERNELS_CPU_TILED_SIMD_H_
#define LCAB_KERNELS_CPU_TILED_SIMD_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attention/dtype.h"
#include "kernels/cpu/strip_layout.h"
#include "kernels/cpu/tile_schedule.h"
#include "kernels/tensor.h"

namespace lcab {

// Scores are x = scale * (q . k), then softcap * tanh(x / softcap) unless softcap is 0. The sign of
// the scale goes into the packed Q (and all of it, when it is 0), so that here scale > 0.
struct ScoreScale {
  float q_factor = 1;  // -1, 0 or 1: of Q when it is packed
  double scale = 1;    // > 0
  double softcap = 0;  // >= 0
};

// Rows of a tensor as the inner loops number them: row r is token r / heads_per_kv, head
// first_head + r % heads_per_kv.
struct GroupRows {
  TensorView tensor;
  int64_t first_head = 0;
  int64_t heads_per_kv = 1;

  std::byte* At(int64_t row) const {
    return tensor.At(row / heads_per_kv, first_head + row % heads_per_kv);
  }
};
struct GroupRowStats {
  RowStatView stat;
  int64_t first_head = 0;
  int64_t heads_per_kv = 1;

  float* At(int64_t row) const {
    return stat.At(first_head + row % heads_per_kv, row / heads_per_kv);
  }
};

// Keys [first, end) of one kv head of K or V, to be packed; `keys` is the whole buffer's padded
// count. Either target may be null.
struct PackKeysArgs {
  TensorView tensor;
  int64_t kv_head = 0;
  int64_t first = 0, end = 0;  // first: a multiple of the panel; end: as well, or the last key
  int64_t keys = 0;
  float* panels = nullptr;
  float* strips = nullptr;
  StripLayout layout;  // of the strips
};

struct ForwardTileArgs {
  const float* k_panels = nullptr;
  const float* v_strips = nullptr;
  int64_t keys = 0;  // padded
  int64_t qk_dim = 0;
  StripLayout v_layout;
  ScoreScale score;

  int64_t first_row = 0;
  int64_t rows = 0;  // of this tile: at most TileShape::rows
  const TileSchedule* schedule = nullptr;
  int64_t tile = 0;

  GroupRows q, out;
  GroupRowStats lse;
  float* scratch = nullptr;  // ForwardScratchFloats(), aligned to a vector
};

struct BackwardTileArgs {
  const float* k_panels = nullptr;
  const float* k_strips = nullptr;
  const float* v_panels = nullptr;
  int64_t keys = 0;  // padded
  int64_t qk_dim = 0;
  int64_t v_dim = 0;
  StripLayout qk_layout, v_layout;
  ScoreScale score;

  int64_t first_row = 0;
  int64_t rows = 0;
  const TileSchedule* schedule = nullptr;
  int64_t tile = 0;

  GroupRows q, dout, dq;
  GroupRowStats lse, delta;
  float dq_factor = 1;         // dQ = dq_factor * sum_j dS_ij k_j
  bool accumulate = false;     // add to dq
  float* dk_strips = nullptr;  // sums of this part's tiles: dK / scale, in strips of all keys
  float* dv_strips = nullptr;
  float* scratch = nullptr;  // BackwardScratchFloats(), aligned to a vector
};

// Adds `sources` (strips of `keys` rows) in their order and writes rows [first, end) of one head.
struct UnpackKeysArgs {
  std::span<const float* const> sources;
  int64_t keys = 0;
  StripLayout layout;
  int64_t first = 0, end = 0;
  float factor = 1;
  bool accumulate = false;
  TensorView tensor;
  int64_t kv_head = 0;
};

struct TiledSimd {
  std::string_view name;  // of the instruction set
  int64_t lanes = 1;      // floats of a vector
  TileShape shape;

  void (*pack_keys)(const PackKeysArgs& args) = nullptr;
  void (*forward_tile)(const ForwardTileArgs& args) = nullptr;
  void (*backward_tile)(const BackwardTileArgs& args) = nullptr;
  void (*unpack_keys)(const UnpackKeysArgs& args) = nullptr;
  // For tests: y[i] = 2^x[i], and tanh(x[i]), as the kernel computes them; count is a multiple of
  // lanes.
  void (*exp2)(const float* x, float* y, int64_t count) = nullptr;
  void (*tanh)(const float* x, float* y, int64_t count) = nullptr;

  int64_t ForwardScratchFloats(int64_t qk_dim, int64_t v_dim) const;
  int64_t BackwardScratchFloats(int64_t qk_dim, int64_t v_dim) const;
};

// For the best instruction set of this machine.
const TiledSimd& BestTiledSimd();
// For every one that this machine can run, best first: for tests. Not to be called while another
// thread computes.
std::vector<const TiledSimd*> AllTiledSimd();

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_TILED_SIMD_H_
