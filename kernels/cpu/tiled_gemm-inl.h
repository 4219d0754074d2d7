// Register-blocked products, the bulk of cpu_tiled's work. Included once for each instruction set.

#if defined(LCAB_KERNELS_CPU_TILED_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LCAB_KERNELS_CPU_TILED_GEMM_INL_H_
#undef LCAB_KERNELS_CPU_TILED_GEMM_INL_H_
#else
#define LCAB_KERNELS_CPU_TILED_GEMM_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using VectorTag = hn::ScalableTag<float>;
using Vector = hn::Vec<VectorTag>;
constexpr int64_t kLanes = hn::MaxLanes(VectorTag());

// A block of kPanel x 3 vectors of sums, three loaded vectors and one broadcast fit the registers:
// 8 x 3 + 4 of 32, or 4 x 3 + 4 of 16. Fewer sums would wait for the latency of multiply-adds, or
// for loads.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int64_t kPanel = 8;
#else
constexpr int64_t kPanel = 4;
#endif
constexpr int kMostVectors = 3;

// A tile of query rows: as many vectors as one block of sums holds, more where vectors are short.
// A block of keys: its scores stay in the first-level cache beside the tile's rows. (Larger and
// smaller ones were tried: a few per cent slower.)
#if HWY_TARGET == HWY_SCALAR
constexpr int kTileVectors = 24;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kTileVectors = 3;
#else
constexpr int kTileVectors = 6;
#endif
constexpr int64_t kTileRows = kTileVectors * kLanes;
constexpr int64_t kTileKeys = 128;
static_assert(kTileRows % kPanel == 0 && kTileKeys % kPanel == 0);

// sums[m][n] += sum over i < depth of a[m * kStep + i * kDepthStep] * b[i * b_step + n * kLanes +
// lane]. Steps of `a` are constants so that they become displacements of the addresses.
template <int kVectors, int64_t kStep, int64_t kDepthStep>
HWY_INLINE void MultiplyAdd(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                            int64_t b_step, int64_t depth, Vector (&sums)[kPanel][kVectors]) {
  const VectorTag tag;
  for (int64_t i = 0; i < depth; ++i) {
    Vector columns[kVectors];
    for (int n = 0; n < kVectors; ++n) columns[n] = hn::Load(tag, b + n * kLanes);
    for (int m = 0; m < kPanel; ++m) {
      const Vector row = hn::Set(tag, a[m * kStep]);
      for (int n = 0; n < kVectors; ++n) sums[m][n] = hn::MulAdd(row, columns[n], sums[m][n]);
    }
    a += kDepthStep;
    b += b_step;
  }
}

template <int kVectors>
HWY_INLINE void SetZero(Vector (&sums)[kPanel][kVectors]) {
  const VectorTag tag;
  for (int m = 0; m < kPanel; ++m) {
    for (int n = 0; n < kVectors; ++n) sums[m][n] = hn::Zero(tag);
  }
}

template <int kVectors>
HWY_INLINE void StoreSums(const Vector (&sums)[kPanel][kVectors], float* HWY_RESTRICT to,
                          int64_t step) {
  const VectorTag tag;
  for (int m = 0; m < kPanel; ++m) {
    for (int n = 0; n < kVectors; ++n) hn::Store(sums[m][n], tag, to + m * step + n * kLanes);
  }
}

// to[m * to_step + ...] += the product.
template <int kVectors, int64_t kStep, int64_t kDepthStep>
HWY_INLINE void AddProduct(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t b_step,
                           int64_t depth, float* HWY_RESTRICT to, int64_t to_step) {
  const VectorTag tag;
  Vector sums[kPanel][kVectors];
  for (int m = 0; m < kPanel; ++m) {
    for (int n = 0; n < kVectors; ++n) {
      sums[m][n] = hn::Load(tag, to + m * to_step + n * kLanes);
    }
  }
  MultiplyAdd<kVectors, kStep, kDepthStep>(a, b, b_step, depth, sums);
  StoreSums<kVectors>(sums, to, to_step);
}

// Calls body.template operator()<kVectors>() for the number of vectors at hand. (A functor, not a
// lambda: GCC would compile a lambda's body for the baseline instruction set.)
template <class Body>
HWY_INLINE void WithVectors(int64_t vectors, const Body& body) {
  if (vectors == 3) {
    body.template Run<3>();
  } else if (vectors == 2) {
    body.template Run<2>();
  } else {
    body.template Run<1>();
  }
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LCAB_KERNELS_CPU_TILED_GEMM_INL_H_
