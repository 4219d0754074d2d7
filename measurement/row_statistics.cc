#include "measurement/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "attention/mask.h"
#include "attention/tokens.h"
#include "hwy/aligned_allocator.h"

// Vectors of unknown length cannot be members of arrays, which hold the sums in registers; machines
// that have them have NEON, too.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measurement/row_statistics.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"

#ifndef LCAB_MEASUREMENT_ROW_STATISTICS_ONCE_
#define LCAB_MEASUREMENT_ROW_STATISTICS_ONCE_
namespace lcab::measurement {

inline constexpr int64_t kRows = 8;       // rows of a block
inline constexpr int64_t kTileKeys = 64;  // a multiple of two vectors of any width
inline constexpr int64_t kDimPad = 64;

// K and V of a head, by tiles of keys; the last tile is padded with zeros.
struct PackedKeys {
  std::vector<float> k;  // [tile][qk_head_dim][kTileKeys]
  std::vector<float> v;  // [tile][kTileKeys][v_dim_padded]
  int64_t v_dim_padded = 0;
};

// A block of rows against the tiles of keys that any of them sees.
struct Block {
  const PackedKeys* keys = nullptr;
  int64_t qk_head_dim = 0;
  double scale = 1, softcap = 0;
  const double* q = nullptr;   // [qk_head_dim][kRows]
  std::vector<int64_t> tiles;  // those that some row sees, ascending
  double* scores = nullptr;    // [kRows][tiles * kTileKeys]
  double* out = nullptr;       // [kRows][v_dim_padded], zero before
};

}  // namespace lcab::measurement
#endif

HWY_BEFORE_NAMESPACE();
namespace lcab::measurement::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<double>;
using Vector = hn::Vec<Tag>;

HWY_INLINE Vector LoadFloats(const float* from) {
  const Tag tag;
  const hn::Rebind<float, Tag> float_tag;
  return hn::PromoteTo(tag, hn::LoadU(float_tag, from));
}

// scores = f(scale * q . k) for all rows and keys of the block's tiles.
void Scores(const Block& block) {
  const Tag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const auto stride = static_cast<int64_t>(block.tiles.size()) * kTileKeys;
  const Vector scale = hn::Set(tag, block.scale);
  for (size_t t = 0; t < block.tiles.size(); ++t) {
    const float* k = block.keys->k.data() + block.tiles[t] * block.qk_head_dim * kTileKeys;
    for (int64_t key = 0; key < kTileKeys; key += 2 * lanes) {
      Vector low[kRows], high[kRows];
      for (int64_t r = 0; r < kRows; ++r) low[r] = high[r] = hn::Zero(tag);
      for (int64_t d = 0; d < block.qk_head_dim; ++d) {
        const Vector k_low = LoadFloats(k + d * kTileKeys + key);
        const Vector k_high = LoadFloats(k + d * kTileKeys + key + lanes);
        for (int64_t r = 0; r < kRows; ++r) {
          const Vector q = hn::Set(tag, block.q[d * kRows + r]);
          low[r] = hn::MulAdd(q, k_low, low[r]);
          high[r] = hn::MulAdd(q, k_high, high[r]);
        }
      }
      for (int64_t r = 0; r < kRows; ++r) {
        double* to = block.scores + r * stride + static_cast<int64_t>(t) * kTileKeys + key;
        hn::StoreU(hn::Mul(scale, low[r]), tag, to);
        hn::StoreU(hn::Mul(scale, high[r]), tag, to + lanes);
      }
    }
  }
  if (block.softcap == 0) return;
  const Vector cap = hn::Set(tag, block.softcap);
  for (int64_t i = 0; i < kRows * stride; i += lanes) {
    const Vector x = hn::Div(hn::LoadU(tag, block.scores + i), cap);
    hn::StoreU(hn::Mul(cap, hn::Tanh(tag, x)), tag, block.scores + i);
  }
}

// A row of scores (-inf where it sees nothing) becomes exp(score - max); returns the LSE.
double Exponentials(double* row, int64_t count) {
  const Tag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  Vector most = hn::Set(tag, -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < count; i += lanes) most = hn::Max(most, hn::LoadU(tag, row + i));
  const double largest = hn::GetLane(hn::MaxOfLanes(tag, most));
  if (largest == -std::numeric_limits<double>::infinity()) {
    std::fill(row, row + count, 0.0);
    return largest;
  }
  const Vector shift = hn::Set(tag, largest);
  Vector sum = hn::Zero(tag);
  for (int64_t i = 0; i < count; i += lanes) {
    const Vector p = hn::Exp(tag, hn::Sub(hn::LoadU(tag, row + i), shift));
    hn::StoreU(p, tag, row + i);
    sum = hn::Add(sum, p);
  }
  return largest + std::log(hn::GetLane(hn::SumOfLanes(tag, sum)));
}

// out += scores (now weights) x V.
void WeighValues(const Block& block) {
  const Tag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const auto stride = static_cast<int64_t>(block.tiles.size()) * kTileKeys;
  const int64_t dim = block.keys->v_dim_padded;
  for (size_t t = 0; t < block.tiles.size(); ++t) {
    const float* v = block.keys->v.data() + block.tiles[t] * kTileKeys * dim;
    const double* weights = block.scores + static_cast<int64_t>(t) * kTileKeys;
    for (int64_t d = 0; d < dim; d += 2 * lanes) {
      Vector low[kRows], high[kRows];
      for (int64_t r = 0; r < kRows; ++r) {
        low[r] = hn::LoadU(tag, block.out + r * dim + d);
        high[r] = hn::LoadU(tag, block.out + r * dim + d + lanes);
      }
      for (int64_t key = 0; key < kTileKeys; ++key) {
        const Vector v_low = LoadFloats(v + key * dim + d);
        const Vector v_high = LoadFloats(v + key * dim + d + lanes);
        for (int64_t r = 0; r < kRows; ++r) {
          const Vector weight = hn::Set(tag, weights[r * stride + key]);
          low[r] = hn::MulAdd(weight, v_low, low[r]);
          high[r] = hn::MulAdd(weight, v_high, high[r]);
        }
      }
      for (int64_t r = 0; r < kRows; ++r) {
        hn::StoreU(low[r], tag, block.out + r * dim + d);
        hn::StoreU(high[r], tag, block.out + r * dim + d + lanes);
      }
    }
  }
}

}  // namespace lcab::measurement::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lcab::measurement {
namespace {

HWY_EXPORT(Scores);
HWY_EXPORT(Exponentials);
HWY_EXPORT(WeighValues);

PackedKeys Pack(const HeadInputs& inputs, const ParallelFor& parallel_for) {
  const Problem& problem = inputs.problem;
  const int64_t keys = problem.k_tokens(), qk = problem.qk_head_dim, dv = problem.v_head_dim;
  const int64_t tiles = (keys + kTileKeys - 1) / kTileKeys;
  PackedKeys packed;
  packed.v_dim_padded = (dv + kDimPad - 1) / kDimPad * kDimPad;
  packed.k.resize(static_cast<size_t>(tiles * qk * kTileKeys));
  packed.v.resize(static_cast<size_t>(tiles * kTileKeys * packed.v_dim_padded));
  parallel_for(tiles, [&](int64_t tile) {
    const int64_t end = std::min(keys, (tile + 1) * kTileKeys);
    for (int64_t key = tile * kTileKeys; key < end; ++key) {
      float* k = packed.k.data() + tile * qk * kTileKeys + key % kTileKeys;
      for (int64_t d = 0; d < qk; ++d) {
        k[d * kTileKeys] = inputs.k[static_cast<size_t>(key * qk + d)];
      }
      std::copy_n(inputs.v.data() + key * dv, dv, packed.v.data() + key * packed.v_dim_padded);
    }
  });
  return packed;
}

// The tiles that any of the rows sees.
std::vector<int64_t> TilesOf(const std::vector<std::vector<Interval>>& rows, int64_t tiles) {
  std::vector<bool> seen(static_cast<size_t>(tiles));
  for (const std::vector<Interval>& row : rows) {
    for (const Interval& keys : row) {
      for (int64_t tile = keys.begin / kTileKeys; tile <= (keys.end - 1) / kTileKeys; ++tile) {
        seen[static_cast<size_t>(tile)] = true;
      }
    }
  }
  std::vector<int64_t> chosen;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    if (seen[static_cast<size_t>(tile)]) chosen.push_back(tile);
  }
  return chosen;
}

// Scores of keys that the row does not see become -inf.
void HideUnseen(const std::vector<int64_t>& tiles, const std::vector<Interval>& keys, double* row) {
  size_t next = 0;
  for (size_t t = 0; t < tiles.size(); ++t) {
    const int64_t begin = tiles[t] * kTileKeys, end = begin + kTileKeys;
    double* scores = row + static_cast<int64_t>(t) * kTileKeys;
    int64_t hidden_from = begin;
    while (next < keys.size() && keys[next].begin < end) {
      const int64_t seen_from = std::max(begin, keys[next].begin);
      std::fill(scores + (hidden_from - begin), scores + (seen_from - begin),
                -std::numeric_limits<double>::infinity());
      hidden_from = std::min(end, keys[next].end);
      if (keys[next].end > end) break;  // goes on in the next tile
      ++next;
    }
    std::fill(scores + (hidden_from - begin), scores + kTileKeys,
              -std::numeric_limits<double>::infinity());
  }
}

}  // namespace

RowStatistics ComputeRowStatistics(const HeadInputs& inputs, const ParallelFor& parallel_for) {
  const Problem& problem = inputs.problem;
  const int64_t rows = problem.q_tokens(), heads = problem.q_heads;
  const int64_t qk = problem.qk_head_dim, dv = problem.v_head_dim;
  const bool backward = !inputs.dout.empty();
  const PackedKeys packed = Pack(inputs, parallel_for);
  const int64_t tiles = (problem.k_tokens() + kTileKeys - 1) / kTileKeys;

  RowStatistics statistics;
  statistics.lse.resize(static_cast<size_t>(heads * rows));
  if (backward) {
    statistics.delta.resize(static_cast<size_t>(heads * rows));
    statistics.delta_terms.resize(static_cast<size_t>(heads * rows));
  }
  const int64_t blocks = (rows + kRows - 1) / kRows;
  parallel_for(blocks * heads, [&](int64_t part) {
    const int64_t head = part / blocks, first = part % blocks * kRows;
    const int64_t count = std::min(kRows, rows - first);
    std::vector<std::vector<Interval>> keys(static_cast<size_t>(count));
    std::vector<double> q(static_cast<size_t>(qk * kRows));
    for (int64_t r = 0; r < count; ++r) {
      problem.mask->RowKeys(0, first + r, &keys[static_cast<size_t>(r)]);
      for (int64_t d = 0; d < qk; ++d) {
        q[static_cast<size_t>(d * kRows + r)] =
            inputs.q[static_cast<size_t>(((first + r) * heads + head) * qk + d)];
      }
    }
    Block block = {.keys = &packed,
                   .qk_head_dim = qk,
                   .scale = problem.Scale(),
                   .softcap = problem.Softcap(),
                   .q = q.data(),
                   .tiles = TilesOf(keys, tiles)};
    const auto stride = static_cast<int64_t>(block.tiles.size()) * kTileKeys;
    std::vector<double> scores(static_cast<size_t>(kRows * stride));
    std::vector<double> out(static_cast<size_t>(kRows * packed.v_dim_padded));
    block.scores = scores.data();
    block.out = out.data();
    HWY_DYNAMIC_DISPATCH(Scores)(block);
    for (int64_t r = 0; r < count; ++r) {
      double* row = block.scores + r * stride;
      HideUnseen(block.tiles, keys[static_cast<size_t>(r)], row);
      statistics.lse[static_cast<size_t>(head * rows + first + r)] =
          HWY_DYNAMIC_DISPATCH(Exponentials)(row, stride);
    }
    if (!backward) return;
    HWY_DYNAMIC_DISPATCH(WeighValues)(block);
    for (int64_t r = 0; r < count; ++r) {
      const double* row = block.scores + r * stride;
      double sum = 0;
      for (int64_t i = 0; i < stride; ++i) sum += row[i];
      if (sum == 0) continue;  // no keys: delta 0
      const float* dout = inputs.dout.data() + ((first + r) * heads + head) * dv;
      double delta = 0, squares = 0;
      for (int64_t d = 0; d < dv; ++d) {
        const double product = dout[d] * (block.out[r * packed.v_dim_padded + d] / sum);
        delta += product;
        squares += product * product;
      }
      statistics.delta[static_cast<size_t>(head * rows + first + r)] = delta;
      statistics.delta_terms[static_cast<size_t>(head * rows + first + r)] = std::sqrt(squares);
    }
  });
  return statistics;
}

int64_t RowStatisticsCost(const Problem& problem, int64_t pairs) {
  return pairs * (problem.qk_head_dim + problem.v_head_dim);
}

}  // namespace lcab::measurement
#endif  // HWY_ONCE
