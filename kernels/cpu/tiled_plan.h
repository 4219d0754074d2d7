// How cpu_tiled divides a problem among threads and memory, decided before anything is allocated.

#ifndef LCAB_KERNELS_CPU_TILED_PLAN_H_
#define LCAB_KERNELS_CPU_TILED_PLAN_H_

#include <cstdint>
#include <vector>

#include "attention/problem.h"
#include "kernels/cpu/strip_layout.h"
#include "kernels/cpu/tile_schedule.h"
#include "kernels/cpu/tiled_simd.h"

namespace lcab {

// Kv heads are worked on in batches whose packed copies fit a bound. Within a batch, the forward
// pass hands out (kv head, tile) pairs. The backward pass hands out (kv head, share of its tiles):
// a share adds dK and dV to a buffer of its own, and the buffers are added in order at the end, so
// that results do not depend on which thread was faster.
struct TiledPlan {
  // Keys that are packed and unpacked as one part.
  static constexpr int64_t kKeysOfPart = 256;
  static constexpr int64_t kMostShares = 64;

  // Of packed copies and gradient buffers at a time. Small beside the tensors of problems that
  // exceed it, and heads that exceed it keep all threads busy on their own.
  static constexpr int64_t kBatchBytes = int64_t{256} << 20;

  TiledPlan(const Problem& problem, Pass pass, const TiledSimd& simd, int threads,
            int64_t batch_bytes = kBatchBytes);

  TileShape shape;
  StripLayout qk_layout, v_layout;
  ScoreScale score;
  int64_t keys = 0;    // of a kv head, padded to whole panels
  int64_t rows = 0;    // of a kv head's group
  int64_t tiles = 0;   // of a kv head's group
  int64_t batch = 1;   // kv heads at a time
  int64_t shares = 1;  // of a kv head's tiles, backward

  // Sizes in floats, each a multiple of 64: of one kv head, and of one thread.
  int64_t k_panels = 0, k_strips = 0, v_panels = 0, v_strips = 0;
  int64_t dk_strips = 0, dv_strips = 0;  // of one share
  int64_t scratch = 0;

  // Floats of a kv head in the workspace, and where its parts begin in it.
  int64_t HeadFloats() const {
    return k_panels + k_strips + v_panels + v_strips + shares * (dk_strips + dv_strips);
  }
  int64_t WorkspaceBytes(int threads) const;
};

// The tiles of one group of the mask, cut into shares of nearly equal cost.
struct TileShares {
  TileShares(const TileSchedule& schedule, int64_t shares);

  std::vector<int64_t> first_tile;  // of each share, and the end
  std::vector<Interval> keys;       // that a share's tiles visit, in whole parts of keys
};

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_TILED_PLAN_H_
