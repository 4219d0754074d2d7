#include "kernels/cpu/tiled_plan.h"

#include <algorithm>
#include <cstdint>

namespace lcab {
namespace {

// Parts a thread, so that an unlucky thread does not hold up the rest for long.
constexpr int64_t kPartsOfThread = 4;

int64_t RoundUp(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

ScoreScale MakeScoreScale(const Problem& problem) {
  ScoreScale score;
  const double scale = problem.Scale();
  score.q_factor = scale > 0 ? 1.0f : scale < 0 ? -1.0f : 0.0f;
  score.scale = scale == 0 ? 1 : scale < 0 ? -scale : scale;
  score.softcap = problem.Softcap();
  return score;
}

}  // namespace

TiledPlan::TiledPlan(const Problem& problem, Pass pass, const TiledSimd& simd, int threads,
                     int64_t batch_bytes)
    : shape(simd.shape),
      qk_layout(problem.qk_head_dim, simd.lanes),
      v_layout(problem.v_head_dim, simd.lanes),
      score(MakeScoreScale(problem)),
      keys(RoundUp(problem.k_tokens(), shape.panel)),
      rows(problem.q_tokens() * problem.heads_per_kv()),
      tiles((rows + shape.rows - 1) / shape.rows) {
  constexpr int64_t kAlign = 64;
  k_panels = RoundUp(keys * problem.qk_head_dim, kAlign);
  if (pass == Pass::kForward) {
    v_strips = RoundUp(keys * v_layout.padded_dim(), kAlign);
    scratch = simd.ForwardScratchFloats(problem.qk_head_dim, problem.v_head_dim);
  } else {
    k_strips = RoundUp(keys * qk_layout.padded_dim(), kAlign);
    v_panels = RoundUp(keys * problem.v_head_dim, kAlign);
    dk_strips = k_strips;
    dv_strips = RoundUp(keys * v_layout.padded_dim(), kAlign);
    scratch = simd.BackwardScratchFloats(problem.qk_head_dim, problem.v_head_dim);
  }
  scratch = RoundUp(scratch, kAlign);

  const int64_t head_bytes =
      std::max<int64_t>(1, HeadFloats() * static_cast<int64_t>(sizeof(float)));
  batch = std::clamp<int64_t>(batch_bytes / head_bytes, 1, problem.kv_heads);
  if (batch < problem.kv_heads && batch > threads) batch -= batch % threads;
  if (pass == Pass::kBackward && threads > 1) {
    const int64_t wanted = (kPartsOfThread * threads + batch - 1) / batch;
    const int64_t share_bytes =
        std::max<int64_t>(1, batch * (dk_strips + dv_strips) * static_cast<int64_t>(sizeof(float)));
    const int64_t affordable = std::max<int64_t>(1, batch_bytes / share_bytes);
    // Memory bounds the shares, but never below one for each thread that would have none.
    const int64_t needed = (threads + batch - 1) / batch;
    shares = std::min(wanted, std::max(affordable, needed));
    shares = std::clamp<int64_t>(shares, 1, std::clamp<int64_t>(tiles, 1, kMostShares));
  }
}

int64_t TiledPlan::WorkspaceBytes(int threads) const {
  return (batch * HeadFloats() + threads * scratch) * static_cast<int64_t>(sizeof(float));
}

TileShares::TileShares(const TileSchedule& schedule, int64_t shares) {
  int64_t total = 0;
  for (int64_t tile = 0; tile < schedule.tiles(); ++tile) total += schedule.VisitedKeys(tile);
  int64_t tile = 0;
  int64_t cost = 0;
  first_tile.push_back(0);
  for (int64_t share = 1; share <= shares; ++share) {
    const int64_t goal = total / shares * share;
    Interval visited;
    while (tile < schedule.tiles() && (share == shares || cost < goal)) {
      for (const KeySpan& span : schedule.Spans(tile)) {
        const Interval of_span = {span.first_key, span.first_key + span.keys};
        visited = visited.empty() ? of_span
                                  : Interval{std::min(visited.begin, of_span.begin),
                                             std::max(visited.end, of_span.end)};
      }
      cost += schedule.VisitedKeys(tile);
      ++tile;
    }
    first_tile.push_back(tile);
    keys.push_back({visited.begin / TiledPlan::kKeysOfPart * TiledPlan::kKeysOfPart,
                    RoundUp(visited.end, TiledPlan::kKeysOfPart)});
  }
}

}  // namespace lcab
