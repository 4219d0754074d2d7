// Between tensors and the packed copies that the inner loops read and write. Included once for each
// instruction set.

#if defined(LCAB_KERNELS_CPU_TILED_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LCAB_KERNELS_CPU_TILED_PACK_INL_H_
#undef LCAB_KERNELS_CPU_TILED_PACK_INL_H_
#else
#define LCAB_KERNELS_CPU_TILED_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "attention/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/strip_layout.h"
#include "kernels/cpu/tiled_gemm-inl.h"
#include "kernels/cpu/tiled_simd.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

constexpr int64_t kQuad = 4;  // rows that are transposed together
constexpr int64_t kMostDim = 1024;

// What stands for rows that a tile or panel does not have.
alignas(64) inline constexpr float kZeroRow[kMostDim] = {};

// `dim` floats of a row times `factor`: in place where nothing changes, else in `buffer`.
HWY_INLINE const float* ReadRow(const std::byte* row, DType dtype, int64_t dim, float factor,
                                float* HWY_RESTRICT buffer) {
  if (dtype == DType::kFloat32) {
    const auto* values = reinterpret_cast<const float*>(row);
    if (factor == 1) return values;
    for (int64_t i = 0; i < dim; ++i) buffer[i] = factor * values[i];
    return buffer;
  }
  const auto* values = reinterpret_cast<const BFloat16*>(row);
  for (int64_t i = 0; i < dim; ++i) buffer[i] = factor * ToFloat(values[i]);
  return buffer;
}

// Writes or adds `dim` values to a row of a tensor.
HWY_INLINE void WriteRow(const float* HWY_RESTRICT values, int64_t dim, bool accumulate,
                         DType dtype, std::byte* row) {
  if (dtype == DType::kFloat32) {
    auto* HWY_RESTRICT to = reinterpret_cast<float*>(row);
    if (accumulate) {
      for (int64_t i = 0; i < dim; ++i) to[i] += values[i];
    } else {
      std::memcpy(to, values, static_cast<size_t>(dim) * sizeof(float));
    }
    return;
  }
  auto* HWY_RESTRICT to = reinterpret_cast<BFloat16*>(row);
  for (int64_t i = 0; i < dim; ++i) to[i] = ToBFloat16(values[i]);
}

// to[column * step + r] = rows[r][column] for four rows.
HWY_INLINE void TransposeQuad(const float* const (&rows)[kQuad], int64_t dim,
                              float* HWY_RESTRICT to, int64_t step) {
  int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, kQuad> tag;
  const hn::RepartitionToWide<decltype(tag)> wide_tag;
  for (; column + kQuad <= dim; column += kQuad) {
    const auto a = hn::LoadU(tag, rows[0] + column);
    const auto b = hn::LoadU(tag, rows[1] + column);
    const auto c = hn::LoadU(tag, rows[2] + column);
    const auto d = hn::LoadU(tag, rows[3] + column);
    const auto ab_low = hn::BitCast(wide_tag, hn::InterleaveLower(tag, a, b));
    const auto ab_high = hn::BitCast(wide_tag, hn::InterleaveUpper(tag, a, b));
    const auto cd_low = hn::BitCast(wide_tag, hn::InterleaveLower(tag, c, d));
    const auto cd_high = hn::BitCast(wide_tag, hn::InterleaveUpper(tag, c, d));
    float* place = to + column * step;
    hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(wide_tag, ab_low, cd_low)), tag, place);
    hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(wide_tag, ab_low, cd_low)), tag, place + step);
    hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(wide_tag, ab_high, cd_high)), tag,
               place + 2 * step);
    hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(wide_tag, ab_high, cd_high)), tag,
               place + 3 * step);
  }
#endif
  for (; column < dim; ++column) {
    for (int64_t r = 0; r < kQuad; ++r) to[column * step + r] = rows[r][column];
  }
}

HWY_INLINE void WriteStripRow(const float* HWY_RESTRICT values, int64_t dim,
                              const StripLayout& layout, int64_t row, int64_t rows,
                              float* HWY_RESTRICT strips) {
  for (int64_t strip = 0; strip < layout.strips(); ++strip) {
    float* to = strips + layout.Offset(strip, row, rows);
    const int64_t begin = layout.Column(strip);
    const int64_t width = layout.Width(strip);
    const int64_t filled = std::min(width, dim - begin);
    std::memcpy(to, values + begin, static_cast<size_t>(filled) * sizeof(float));
    std::fill(to + filled, to + width, 0.0f);
  }
}

// A tile's rows to `transposed` ([dim][step], step a multiple of four: the rows that the tile lacks
// are 0) and, unless null, to `strips` of `step` rows.
HWY_INLINE void PackTile(const GroupRows& source, int64_t first_row, int64_t rows, float factor,
                         float* HWY_RESTRICT transposed, int64_t step, float* HWY_RESTRICT strips,
                         const StripLayout& layout) {
  const int64_t dim = source.tensor.dim;
  HWY_ALIGN float buffer[kQuad][kMostDim];
  for (int64_t row = 0; row < step; row += kQuad) {
    const float* quad[kQuad];
    for (int64_t r = 0; r < kQuad; ++r) {
      quad[r] = row + r < rows ? ReadRow(source.At(first_row + row + r), source.tensor.dtype, dim,
                                         factor, buffer[r])
                               : kZeroRow;
      if (strips != nullptr) WriteStripRow(quad[r], dim, layout, row + r, step, strips);
    }
    TransposeQuad(quad, dim, transposed + row, step);
  }
}

inline void PackKeys(const PackKeysArgs& args) {
  const int64_t dim = args.tensor.dim;
  HWY_ALIGN float buffer[kQuad][kMostDim];
  for (int64_t key = args.first; key < args.end; key += kPanel) {
    for (int64_t part = 0; part < kPanel; part += kQuad) {
      const float* quad[kQuad];
      for (int64_t r = 0; r < kQuad; ++r) {
        const int64_t row = key + part + r;
        quad[r] = row < args.end ? ReadRow(args.tensor.At(row, args.kv_head), args.tensor.dtype,
                                           dim, 1, buffer[r])
                                 : kZeroRow;
        if (args.strips != nullptr) {
          WriteStripRow(quad[r], dim, args.layout, row, args.keys, args.strips);
        }
      }
      if (args.panels != nullptr) TransposeQuad(quad, dim, args.panels + key * dim + part, kPanel);
    }
  }
}

inline void UnpackKeys(const UnpackKeysArgs& args) {
  const int64_t dim = args.tensor.dim;
  HWY_ALIGN float row[kMostDim + kMostVectors * kLanes];
  for (int64_t key = args.first; key < args.end; ++key) {
    for (int64_t strip = 0; strip < args.layout.strips(); ++strip) {
      const int64_t offset = args.layout.Offset(strip, key, args.keys);
      const int64_t width = args.layout.Width(strip);
      float* HWY_RESTRICT to = row + args.layout.Column(strip);
      for (int64_t i = 0; i < width; ++i) {
        float sum = 0;
        for (const float* source : args.sources) sum += source[offset + i];
        to[i] = sum * args.factor;
      }
    }
    WriteRow(row, dim, args.accumulate, args.tensor.dtype, args.tensor.At(key, args.kv_head));
  }
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LCAB_KERNELS_CPU_TILED_PACK_INL_H_
