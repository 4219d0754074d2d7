// One tile of query rows, backward: scores are computed again and P comes from the LSE, as in
// FlashAttention-2 (Dao, 2023). Included once for each instruction set.
//
//   P = exp(score - LSE)   dS = P * (dO V^T - delta)   dV += P^T dO   dK += dS^T Q   dQ += dS K

#if defined(LCAB_KERNELS_CPU_TILED_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LCAB_KERNELS_CPU_TILED_BACKWARD_INL_H_
#undef LCAB_KERNELS_CPU_TILED_BACKWARD_INL_H_
#else
#define LCAB_KERNELS_CPU_TILED_BACKWARD_INL_H_
#endif

#include <algorithm>
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

struct BackwardState {
  float* HWY_RESTRICT q;            // [qk_dim][kTileRows]
  float* HWY_RESTRICT q_strips;     // of kTileRows rows
  float* HWY_RESTRICT dout;         // [v_dim][kTileRows]
  float* HWY_RESTRICT dout_strips;  // of kTileRows rows
  float* HWY_RESTRICT dq_strips;    // of kTileRows rows: sums so far
  float* HWY_RESTRICT p;            // [kTileKeys][kTileRows]: q . k, then P
  float* HWY_RESTRICT ds;           // [kTileKeys][kTileRows]: dO . v, then dS
  float* HWY_RESTRICT lse;          // [kTileRows]
  float* HWY_RESTRICT delta;        // [kTileRows]
};

// to[key][row] = sum over d of panel[d][key] * rows[d][row], for a panel of keys.
struct PanelProductCall {
  const float* panel;
  int64_t dim;
  const float* rows;
  float* to;
  template <int kVectors>
  HWY_INLINE void Run() const {
    Vector sums[kPanel][kVectors];
    SetZero<kVectors>(sums);
    MultiplyAdd<kVectors, 1, kPanel>(panel, rows, kTileRows, dim, sums);
    StoreSums<kVectors>(sums, to, kTileRows);
  }
};

// to[key][column] += sum over rows of weights[key][row] * rows[row][column], for a panel of keys
// and a strip of columns.
struct KeyGradientCall {
  const float* weights;
  const float* rows;
  int64_t depth;
  float* to;
  template <int kVectors>
  HWY_INLINE void Run() const {
    AddProduct<kVectors, kTileRows, 1>(weights, rows, kVectors * kLanes, depth, to,
                                       kVectors * kLanes);
  }
};

// to[row][column] += sum over keys of weights[key][row] * keys[key][column], for kPanel rows and a
// strip of columns.
struct QueryGradientCall {
  const float* weights;
  const float* keys;
  int64_t depth;
  float* to;
  template <int kVectors>
  HWY_INLINE void Run() const {
    AddProduct<kVectors, 1, kTileRows>(weights, keys, kVectors * kLanes, depth, to,
                                       kVectors * kLanes);
  }
};

// P and dS of a panel of keys and one vector of rows.
template <bool kCapped>
HWY_INLINE void ScoreGradients(const ScoreScale& score_scale, const BackwardState& state,
                               const SpanBounds* bounds, int64_t key, int n) {
  const VectorTag tag;
  const Vector scale = hn::Set(tag, static_cast<float>(score_scale.scale));
  const Vector log2e = hn::Set(tag, kLog2E);
  const Vector lse = hn::Load(tag, state.lse + n * kLanes);
  const Vector delta = hn::Load(tag, state.delta + n * kLanes);
  for (int m = 0; m < kPanel; ++m) {
    const int64_t place = (key + m) * kTileRows + n * kLanes;
    const Vector product = hn::Load(tag, state.p + place);
    Vector p, slope;
    if constexpr (kCapped) {
      const Vector inverse = hn::Set(tag, static_cast<float>(1 / score_scale.softcap));
      const Vector tanh = hn::Tanh(tag, hn::Mul(hn::Mul(product, scale), inverse));
      const Vector score = hn::Mul(tanh, hn::Set(tag, static_cast<float>(score_scale.softcap)));
      p = hn::Mul(hn::Sub(score, lse), log2e);
      slope = hn::NegMulAdd(tanh, tanh, hn::Set(tag, 1.0f));
    } else {
      // The difference first, in one rounding: LSE is near the scores that matter.
      p = hn::Mul(hn::MulSub(product, scale, lse), log2e);
    }
    // Beyond 128 only where the bounds will hide it, or where LSE is not this problem's.
    p = Exp2(AtMost(128.0f, p));
    if (bounds != nullptr) p = hn::IfThenElseZero(bounds->Allows(n, key + m), p);
    Vector ds = hn::Mul(p, hn::Sub(hn::Load(tag, state.ds + place), delta));
    if constexpr (kCapped) ds = hn::Mul(ds, slope);
    hn::Store(p, tag, state.p + place);
    hn::Store(ds, tag, state.ds + place);
  }
}

// Keys [first_key, first_key + keys) for the whole tile. bounds: null where all rows see all keys.
template <bool kCapped>
HWY_INLINE void BackwardChunk(const BackwardTileArgs& args, const BackwardState& state,
                              int64_t first_key, int64_t keys, const SpanBounds* bounds) {
  for (int64_t key = 0; key < keys; key += kPanel) {
    const VectorRange range =
        bounds != nullptr ? bounds->VectorsOf(key) : VectorRange{0, kTileVectors};
    const int64_t at = first_key + key;
    const bool all_see = bounds == nullptr || bounds->AllSee(range, key);
    for (int n = range.begin; n < range.end; n += kMostVectors) {
      const int vectors = std::min(kMostVectors, range.end - n);
      const int64_t place = key * kTileRows + n * kLanes;
      WithVectors(vectors, PanelProductCall{args.k_panels + at * args.qk_dim, args.qk_dim,
                                            state.q + n * kLanes, state.p + place});
      WithVectors(vectors, PanelProductCall{args.v_panels + at * args.v_dim, args.v_dim,
                                            state.dout + n * kLanes, state.ds + place});
      for (int v = n; v < n + vectors; ++v) {
        ScoreGradients<kCapped>(args.score, state, all_see ? nullptr : bounds, key, v);
      }
    }
  }
  const auto add_to_keys = [&](const float* weights, const float* row_strips,
                               const StripLayout& layout, float* to) HWY_ATTR {
    for (int64_t strip = 0; strip < layout.strips(); ++strip) {
      const int64_t width = layout.Width(strip);
      const float* rows = row_strips + layout.Offset(strip, 0, kTileRows);
      float* sums = to + layout.Offset(strip, first_key, args.keys);
      for (int64_t key = 0; key < keys; key += kPanel) {
        const VectorRange range =
            bounds != nullptr ? bounds->VectorsOf(key) : VectorRange{0, kTileVectors};
        const int64_t first_row = range.begin * kLanes;
        WithVectors(width / kLanes,
                    KeyGradientCall{weights + key * kTileRows + first_row, rows + first_row * width,
                                    (range.end - range.begin) * kLanes, sums + key * width});
      }
    }
  };
  add_to_keys(state.p, state.dout_strips, args.v_layout, args.dv_strips);
  add_to_keys(state.ds, state.q_strips, args.qk_layout, args.dk_strips);
  for (int64_t strip = 0; strip < args.qk_layout.strips(); ++strip) {
    const int64_t width = args.qk_layout.Width(strip);
    const float* k = args.k_strips + args.qk_layout.Offset(strip, first_key, args.keys);
    float* dq = state.dq_strips + args.qk_layout.Offset(strip, 0, kTileRows);
    for (int64_t row = 0; row < kTileRows; row += kPanel) {
      const KeyRange range = bounds != nullptr ? bounds->KeysOfRows(row) : KeyRange{0, keys};
      WithVectors(width / kLanes, QueryGradientCall{state.ds + range.begin * kTileRows + row,
                                                    k + range.begin * width,
                                                    range.end - range.begin, dq + row * width});
    }
  }
}

template <bool kCapped>
HWY_INLINE void BackwardSpans(const BackwardTileArgs& args, const BackwardState& state) {
  for (const KeySpan& span : args.schedule->Spans(args.tile)) {
    if (span.bounds != KeySpan::kFull) {
      const SpanBounds bounds(args.schedule->Bounds(span));
      BackwardChunk<kCapped>(args, state, span.first_key, span.keys, &bounds);
      continue;
    }
    for (int64_t key = 0; key < span.keys; key += kTileKeys) {
      BackwardChunk<kCapped>(args, state, span.first_key + key,
                             std::min(kTileKeys, span.keys - key), nullptr);
    }
  }
}

HWY_INLINE void WriteQueryGradients(const BackwardTileArgs& args, const BackwardState& state) {
  const VectorTag tag;
  const Vector factor = hn::Set(tag, args.dq_factor);
  HWY_ALIGN float values[kMostDim + kMostVectors * kLanes];
  for (int64_t row = 0; row < args.rows; ++row) {
    for (int64_t strip = 0; strip < args.qk_layout.strips(); ++strip) {
      const float* from = state.dq_strips + args.qk_layout.Offset(strip, row, kTileRows);
      float* to = values + args.qk_layout.Column(strip);
      for (int64_t i = 0; i < args.qk_layout.Width(strip); i += kLanes) {
        hn::Store(hn::Mul(hn::Load(tag, from + i), factor), tag, to + i);
      }
    }
    WriteRow(values, args.dq.tensor.dim, args.accumulate, args.dq.tensor.dtype,
             args.dq.At(args.first_row + row));
  }
}

inline void BackwardTile(const BackwardTileArgs& args) {
  BackwardState state;
  float* next = args.scratch;
  const auto take = [&next](int64_t rows) {
    float* const taken = next;
    next += rows * kTileRows;
    return taken;
  };
  state.q = take(args.qk_dim);
  state.dout = take(args.v_dim);
  state.q_strips = take(args.qk_layout.padded_dim());
  state.dq_strips = take(args.qk_layout.padded_dim());
  state.dout_strips = take(args.v_layout.padded_dim());
  state.p = take(kTileKeys);
  state.ds = take(kTileKeys);
  state.lse = take(1);
  state.delta = take(1);
  PackTile(args.q, args.first_row, args.rows, args.score.q_factor, state.q, kTileRows,
           state.q_strips, args.qk_layout);
  PackTile(args.dout, args.first_row, args.rows, 1, state.dout, kTileRows, state.dout_strips,
           args.v_layout);
  std::fill_n(state.dq_strips, args.qk_layout.padded_dim() * kTileRows, 0.0f);
  for (int64_t row = 0; row < kTileRows; ++row) {
    const float lse = row < args.rows ? *args.lse.At(args.first_row + row)
                                      : -std::numeric_limits<float>::infinity();
    const bool no_key = lse == -std::numeric_limits<float>::infinity();
    // Whatever its scores, such a row has P = exp(score - inf) = 0, and nothing flows back.
    state.lse[row] = no_key ? std::numeric_limits<float>::infinity() : lse;
    state.delta[row] = no_key ? 0.0f : *args.delta.At(args.first_row + row);
  }
  if (args.score.softcap > 0) {
    BackwardSpans<true>(args, state);
  } else {
    BackwardSpans<false>(args, state);
  }
  WriteQueryGradients(args, state);
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LCAB_KERNELS_CPU_TILED_BACKWARD_INL_H_
