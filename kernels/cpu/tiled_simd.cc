#include "kernels/cpu/tiled_simd.h"

#include <cstdint>
#include <vector>

// SSSE3 would only add to the binary: machines without SSE4 are gone. Vectors of unknown length
// cannot be members of arrays, which hold the sums in registers; such machines have NEON, too.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tiled_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "kernels/cpu/tiled_backward-inl.h"
#include "kernels/cpu/tiled_forward-inl.h"
#include "kernels/cpu/tiled_math-inl.h"
#include "kernels/cpu/tiled_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

void Exp2Array(const float* x, float* y, int64_t count) {
  const VectorTag tag;
  for (int64_t i = 0; i < count; i += kLanes) {
    hn::StoreU(Exp2(hn::LoadU(tag, x + i)), tag, y + i);
  }
}

void TanhArray(const float* x, float* y, int64_t count) {
  const VectorTag tag;
  const Vector one = hn::Set(tag, 1.0f);
  for (int64_t i = 0; i < count; i += kLanes) {
    hn::StoreU(Cap(hn::LoadU(tag, x + i), one, one), tag, y + i);
  }
}

const TiledSimd* Simd() {
  static const TiledSimd simd = {
      .name = hwy::TargetName(HWY_TARGET),
      .lanes = kLanes,
      .shape = {kTileRows, kPanel, kTileKeys},
      .pack_keys = PackKeys,
      .forward_tile = ForwardTile,
      .backward_tile = BackwardTile,
      .unpack_keys = UnpackKeys,
      .exp2 = Exp2Array,
      .tanh = TanhArray,
  };
  return &simd;
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lcab {

HWY_EXPORT(Simd);

const TiledSimd& BestTiledSimd() { return *HWY_DYNAMIC_DISPATCH(Simd)(); }

std::vector<const TiledSimd*> AllTiledSimd() {
  std::vector<const TiledSimd*> all;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    all.push_back(&BestTiledSimd());
  }
  hwy::SetSupportedTargetsForTest(0);
  return all;
}

int64_t TiledSimd::ForwardScratchFloats(int64_t qk_dim, int64_t v_dim) const {
  return shape.rows * (qk_dim + shape.keys + StripLayout(v_dim, lanes).padded_dim() + 4);
}

int64_t TiledSimd::BackwardScratchFloats(int64_t qk_dim, int64_t v_dim) const {
  return shape.rows * (qk_dim + v_dim + 2 * StripLayout(qk_dim, lanes).padded_dim() +
                       StripLayout(v_dim, lanes).padded_dim() + 2 * shape.keys + 2);
}

}  // namespace lcab
#endif
