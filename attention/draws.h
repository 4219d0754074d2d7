// What the draws of a seed are for: one number each, so that no two uses share their randomness.

#ifndef LCAB_ATTENTION_DRAWS_H_
#define LCAB_ATTENTION_DRAWS_H_

#include <cstdint>

#include "attention/philox.h"

namespace lcab {

enum class DrawPurpose : uint32_t {
  kDocuments = 1,
  kPrefix = 2,
  kWindow = 3,
  kBlockCounts = 4,
  kBlockEdges = 5,
  kBlockScores = 6,
};

// `draw` in 0..2^32 - 1; `head` below 2^23: the top bit tells inputs (input_values.h) from draws.
constexpr PhiloxStream DrawStream(uint64_t seed, DrawPurpose purpose, int64_t draw,
                                  int64_t head = 0) {
  return PhiloxStream(seed, static_cast<uint32_t>(purpose) | static_cast<uint32_t>(head) << 8,
                      static_cast<uint32_t>(draw));
}

}  // namespace lcab

#endif  // LCAB_ATTENTION_DRAWS_H_
