// One tile of query rows, forward, by the online softmax of Milakov and Gimelshein (2018) in the
// order of FlashAttention (Dao et al., 2022). Included once for each instruction set.

#if defined(LCAB_KERNELS_CPU_TILED_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LCAB_KERNELS_CPU_TILED_FORWARD_INL_H_
#undef LCAB_KERNELS_CPU_TILED_FORWARD_INL_H_
#else
#define LCAB_KERNELS_CPU_TILED_FORWARD_INL_H_
#endif

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/tiled_bounds-inl.h"
#include "kernels/cpu/tiled_gemm-inl.h"
#include "kernels/cpu/tiled_math-inl.h"
#include "kernels/cpu/tiled_pack-inl.h"
#include "kernels/cpu/tiled_simd.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

// The state of a tile between chunks of keys. Rows are lanes.
struct ForwardState {
  float* HWY_RESTRICT q;        // [qk_dim][kTileRows]
  float* HWY_RESTRICT scores;   // [kTileKeys][kTileRows]: q . k, then P
  float* HWY_RESTRICT out;      // strips of kTileRows rows: sums of P V so far
  float* HWY_RESTRICT maximum;  // [kTileRows] of scores so far; -inf: no key yet
  float* HWY_RESTRICT latest;   // [kTileRows] the same with the chunk in hand
  float* HWY_RESTRICT sum;      // [kTileRows] of P so far
  float* HWY_RESTRICT rescale;  // [kTileRows] what the new maximum makes of earlier sums
};

// A panel of keys times kVectors vectors of rows. kRaw: the scores are as they will be, so the
// maximum is taken here, in registers.
template <int kVectors, bool kRaw>
HWY_INLINE void ScorePanel(const float* HWY_RESTRICT panel, int64_t dim,
                           const float* HWY_RESTRICT q, float* HWY_RESTRICT scores,
                           float* HWY_RESTRICT latest) {
  const VectorTag tag;
  Vector sums[kPanel][kVectors];
  SetZero<kVectors>(sums);
  MultiplyAdd<kVectors, 1, kPanel>(panel, q, kTileRows, dim, sums);
  StoreSums<kVectors>(sums, scores, kTileRows);
  if constexpr (kRaw) {
    for (int n = 0; n < kVectors; ++n) {
      Vector maximum = hn::Load(tag, latest + n * kLanes);
      for (int m = 0; m < kPanel; ++m) maximum = hn::Max(maximum, sums[m][n]);
      hn::Store(maximum, tag, latest + n * kLanes);
    }
  }
}

template <bool kRaw>
struct ScorePanelCall {
  const float* panel;
  int64_t dim;
  const float* q;
  float* scores;
  float* latest;
  template <int kVectors>
  HWY_INLINE void Run() const {
    ScorePanel<kVectors, kRaw>(panel, dim, q, scores, latest);
  }
};

// Vectors [vectors.begin, vectors.end) of the tile's rows.
template <bool kRaw>
HWY_INLINE void ScoreVectors(const ForwardTileArgs& args, const ForwardState& state,
                             int64_t first_key, int64_t key, VectorRange vectors) {
  for (int n = vectors.begin; n < vectors.end; n += kMostVectors) {
    WithVectors(
        std::min(kMostVectors, vectors.end - n),
        ScorePanelCall<kRaw>{args.k_panels + (first_key + key) * args.qk_dim, args.qk_dim,
                             state.q + n * kLanes, state.scores + key * kTileRows + n * kLanes,
                             state.latest + n * kLanes});
  }
}

// Of the panels of a chunk: whether its scores, and their maximum, are finished.
using FinishedPanels = std::bitset<kTileKeys / kPanel>;

// Caps scores, hides those that the bounds exclude, and takes the maximum, of vector n of rows and
// the panels of keys [begin, end) that are not finished.
template <bool kCapped>
HWY_INLINE void FinishScores(const ForwardTileArgs& args, const ForwardState& state,
                             const SpanBounds* bounds, const FinishedPanels& finished, int n,
                             int64_t begin, int64_t end) {
  const VectorTag tag;
  const Vector scale = hn::Set(tag, static_cast<float>(args.score.scale));
  const Vector softcap = hn::Set(tag, static_cast<float>(args.score.softcap));
  const Vector inverse = hn::Set(tag, static_cast<float>(1 / std::max(1e-30, args.score.softcap)));
  const Vector hidden = hn::Set(tag, -std::numeric_limits<float>::infinity());
  Vector maximum = hn::Load(tag, state.latest + n * kLanes);
  for (int64_t panel = begin; panel < end; panel += kPanel) {
    if (finished[static_cast<size_t>(panel / kPanel)]) continue;
    for (int64_t key = panel; key < panel + kPanel; ++key) {
      float* place = state.scores + key * kTileRows + n * kLanes;
      Vector score = hn::Load(tag, place);
      if constexpr (kCapped) score = Cap(hn::Mul(score, scale), softcap, inverse);
      if (bounds != nullptr) score = hn::IfThenElse(bounds->Allows(n, key), score, hidden);
      maximum = hn::Max(maximum, score);
      hn::Store(score, tag, place);
    }
  }
  hn::Store(maximum, tag, state.latest + n * kLanes);
}

// Scores to P = exp(score - maximum), and their sums.
HWY_INLINE void Exponentiate(const ForwardState& state, Vector factor, int n, int64_t begin,
                             int64_t end) {
  const VectorTag tag;
  const Vector before = hn::Load(tag, state.maximum + n * kLanes);
  Vector maximum = hn::Load(tag, state.latest + n * kLanes);
  hn::Store(maximum, tag, state.maximum + n * kLanes);
  // A row without a key so far: 0 in place of -inf, so that -inf - maximum is -inf and not NaN.
  const Vector hidden = hn::Set(tag, -std::numeric_limits<float>::infinity());
  maximum = hn::IfThenZeroElse(hn::Eq(maximum, hidden), maximum);
  const Vector rescale = Exp2(hn::Mul(hn::Sub(before, maximum), factor));
  hn::Store(rescale, tag, state.rescale + n * kLanes);
  // Of this chunk by itself: weights far below the sum would each be lost beside it.
  Vector sum = hn::Zero(tag);
  for (int64_t key = begin; key < end; ++key) {
    float* place = state.scores + key * kTileRows + n * kLanes;
    // The difference first: it is exact where it matters, however large the scores are.
    const Vector p = Exp2(hn::Mul(hn::Sub(hn::Load(tag, place), maximum), factor));
    hn::Store(p, tag, place);
    sum = hn::Add(sum, p);
  }
  hn::Store(hn::MulAdd(hn::Load(tag, state.sum + n * kLanes), rescale, sum), tag,
            state.sum + n * kLanes);
}

// out = rescale * out + P V, for kPanel rows and one strip.
struct AccumulateOutCall {
  const float* p;
  const float* v;
  int64_t keys;
  float* out;
  const float* rescale;
  template <int kVectors>
  HWY_INLINE void Run() const {
    const VectorTag tag;
    constexpr int64_t kWidth = kVectors * kLanes;
    Vector sums[kPanel][kVectors];
    for (int m = 0; m < kPanel; ++m) {
      const Vector factor = hn::Set(tag, rescale[m]);
      for (int n = 0; n < kVectors; ++n) {
        sums[m][n] = hn::Mul(factor, hn::Load(tag, out + m * kWidth + n * kLanes));
      }
    }
    MultiplyAdd<kVectors, 1, kTileRows>(p, v, kWidth, keys, sums);
    StoreSums<kVectors>(sums, out, kWidth);
  }
};

// Keys [first_key, first_key + keys) for the whole tile. bounds: null where all rows see all keys.
template <bool kCapped>
HWY_INLINE void ForwardChunk(const ForwardTileArgs& args, const ForwardState& state,
                             int64_t first_key, int64_t keys, const SpanBounds* bounds) {
  const VectorTag tag;
  std::copy_n(state.maximum, kTileRows, state.latest);
  FinishedPanels finished;
  for (int64_t key = 0; key < keys; key += kPanel) {
    const VectorRange vectors =
        bounds != nullptr ? bounds->VectorsOf(key) : VectorRange{0, kTileVectors};
    if (!kCapped && (bounds == nullptr || bounds->AllSee(vectors, key))) {
      finished.set(static_cast<size_t>(key / kPanel));
      ScoreVectors<true>(args, state, first_key, key, vectors);
    } else {
      ScoreVectors<false>(args, state, first_key, key, vectors);
    }
  }
  const Vector factor =
      hn::Set(tag, kCapped ? kLog2E : static_cast<float>(args.score.scale * M_LOG2E));
  for (int n = 0; n < kTileVectors; ++n) {
    const KeyRange range = bounds != nullptr ? bounds->KeysOfVector(n) : KeyRange{0, keys};
    if (kCapped || bounds != nullptr) {
      FinishScores<kCapped>(args, state, bounds, finished, n, range.begin, range.end);
    }
    Exponentiate(state, factor, n, range.begin, range.end);
  }
  for (int64_t strip = 0; strip < args.v_layout.strips(); ++strip) {
    const int64_t width = args.v_layout.Width(strip);
    const float* v = args.v_strips + args.v_layout.Offset(strip, first_key, args.keys);
    float* out = state.out + args.v_layout.Offset(strip, 0, kTileRows);
    for (int64_t row = 0; row < kTileRows; row += kPanel) {
      const KeyRange range = bounds != nullptr ? bounds->KeysOfRows(row) : KeyRange{0, keys};
      // No key of these rows: their maximum has not moved.
      if (range.begin == range.end) continue;
      WithVectors(
          width / kLanes,
          AccumulateOutCall{state.scores + range.begin * kTileRows + row, v + range.begin * width,
                            range.end - range.begin, out + row * width, state.rescale + row});
    }
  }
}

// out / sum and LSE to the tensors. Rows without keys: 0 and -inf.
HWY_INLINE void WriteForward(const ForwardTileArgs& args, const ForwardState& state) {
  const VectorTag tag;
  // Rescale is free now: the logarithms of the sums.
  for (int n = 0; n < kTileVectors; ++n) {
    hn::Store(hn::Log(tag, hn::Load(tag, state.sum + n * kLanes)), tag, state.rescale + n * kLanes);
  }
  HWY_ALIGN float values[kMostDim + kMostVectors * kLanes];
  for (int64_t row = 0; row < args.rows; ++row) {
    const float sum = state.sum[row];
    const bool no_key = sum == 0;  // false for NaN, which must show
    const float inverse = no_key ? 0.0f : 1.0f / sum;
    for (int64_t strip = 0; strip < args.v_layout.strips(); ++strip) {
      const float* from = state.out + args.v_layout.Offset(strip, row, kTileRows);
      float* to = values + args.v_layout.Column(strip);
      for (int64_t i = 0; i < args.v_layout.Width(strip); i += kLanes) {
        hn::Store(hn::Mul(hn::Load(tag, from + i), hn::Set(tag, inverse)), tag, to + i);
      }
    }
    WriteRow(values, args.out.tensor.dim, false, args.out.tensor.dtype,
             args.out.At(args.first_row + row));
    const double scale = args.score.softcap > 0 ? 1 : args.score.scale;
    *args.lse.At(args.first_row + row) =
        no_key ? -std::numeric_limits<float>::infinity()
               : static_cast<float>(state.maximum[row] * scale + state.rescale[row]);
  }
}

template <bool kCapped>
HWY_INLINE void ForwardSpans(const ForwardTileArgs& args, const ForwardState& state) {
  for (const KeySpan& span : args.schedule->Spans(args.tile)) {
    if (span.bounds != KeySpan::kFull) {
      const SpanBounds bounds(args.schedule->Bounds(span));
      ForwardChunk<kCapped>(args, state, span.first_key, span.keys, &bounds);
      continue;
    }
    for (int64_t key = 0; key < span.keys; key += kTileKeys) {
      ForwardChunk<kCapped>(args, state, span.first_key + key, std::min(kTileKeys, span.keys - key),
                            nullptr);
    }
  }
}

inline void ForwardTile(const ForwardTileArgs& args) {
  ForwardState state;
  float* next = args.scratch;
  const auto take = [&next](int64_t rows) {
    float* const taken = next;
    next += rows * kTileRows;
    return taken;
  };
  state.q = take(args.qk_dim);
  state.scores = take(kTileKeys);
  state.out = take(args.v_layout.padded_dim());
  state.maximum = take(1);
  state.latest = take(1);
  state.sum = take(1);
  state.rescale = take(1);
  PackTile(args.q, args.first_row, args.rows, args.score.q_factor, state.q, kTileRows, nullptr, {});
  std::fill_n(state.out, args.v_layout.padded_dim() * kTileRows, 0.0f);
  std::fill_n(state.maximum, kTileRows, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, kTileRows, 0.0f);
  if (args.score.softcap > 0) {
    ForwardSpans<true>(args, state);
  } else {
    ForwardSpans<false>(args, state);
  }
  WriteForward(args, state);
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LCAB_KERNELS_CPU_TILED_FORWARD_INL_H_
