// How one element of an input comes about: integer arithmetic on bits of a counter, then one exact
// scaling. Plain enough for devices, whose kernels fill buffers with these same functions.
//
// A value is a sum of three uniform integers of one width W, centred and divided by W / 2: variance
// 1, range (-3, 3) (Irwin-Hall). Two of the three have coarse steps and the last has fine ones, so
// that 32 random bits make a bf16 and 64 make an fp32, with all bits of their significands in use.

#ifndef LCAB_ATTENTION_INPUT_VALUES_H_
#define LCAB_ATTENTION_INPUT_VALUES_H_

#include <cstdint>

#include "attention/dtype.h"
#include "attention/inputs.h"
#include "attention/philox.h"

namespace lcab {

// Elements that one block of four random words makes: neighbouring channels.
constexpr int64_t ElementsPerBlock(DType dtype) { return dtype == DType::kBFloat16 ? 4 : 2; }

// What the four words of a counter are for. Draws of masks leave the top bit of the third clear.
enum class InputBits : uint32_t { kValues = 0, kHeavyChannel = 1, kLargeRow = 2 };

// The random words of block `block` of row (token, head): for values, of its channels; for heavy
// channels, of the group of channels (token 0); for large rows, of the group of tokens.
constexpr PhiloxBlock InputWords(const InputSource& source, InputBits bits, Tensor tensor,
                                 int64_t token, int64_t head, int64_t block) {
  const auto t = static_cast<uint64_t>(token);
  return Philox({static_cast<uint32_t>(t),
                 static_cast<uint32_t>(t >> 32) | static_cast<uint32_t>(head) << 8 |
                     static_cast<uint32_t>(tensor) << 24,
                 static_cast<uint32_t>(block) | static_cast<uint32_t>(bits) << 16 | 0x80000000U,
                 source.generation},
                {static_cast<uint32_t>(source.seed), static_cast<uint32_t>(source.seed >> 32)});
}

// Element `n` of the block: near N(0, 1), a value of the dtype.
constexpr float NormalFromWords(DType dtype, const PhiloxBlock& words, int64_t n) {
  if (dtype == DType::kBFloat16) {
    const uint32_t word = words[static_cast<uint32_t>(n)];
    const auto sum =
        static_cast<int32_t>((((word & 0xFFU) + (word >> 8 & 0xFFU)) << 8) + (word >> 16));
    const int32_t twice_mean = (510 << 8) + 0xFFFF;
    return ToFloat(ToBFloat16(static_cast<float>(2 * sum - twice_mean) * 0x1p-16F));
  }
  const uint64_t coarse = words[static_cast<uint32_t>(2 * n)];
  const uint64_t fine = words[static_cast<uint32_t>(2 * n + 1)];
  const auto sum = static_cast<int64_t>((((coarse & 0xFFFFU) + (coarse >> 16)) << 16) + fine);
  const int64_t twice_mean = (int64_t{131070} << 16) + 0xFFFFFFFF;
  return static_cast<float>(2 * sum - twice_mean) * 0x1p-32F;
}

// One channel of 16 is heavy, by 2^3, 2^4 or 2^5; the others have factor 1. `words` are those of
// the channel's group.
inline constexpr int64_t kHeavyChannelGroup = 16;
constexpr float HeavyChannelFactor(const PhiloxBlock& words, int64_t channel) {
  if (words[0] % kHeavyChannelGroup != channel % kHeavyChannelGroup) return 1;
  return static_cast<float>(8U << (words[1] % 3));
}

// One token of 64 is large, by 2^4. `words` are those of the token's group.
inline constexpr int64_t kLargeRowGroup = 64;
constexpr float LargeRowFactor(const PhiloxBlock& words, int64_t token) {
  return words[0] % kLargeRowGroup == token % kLargeRowGroup ? 16 : 1;
}

// k = q / 2 + noise, rounded once.
constexpr float Correlated(DType dtype, float q, float noise) {
  const float sum = q * 0.5F + noise;
  return dtype == DType::kBFloat16 ? ToFloat(ToBFloat16(sum)) : sum;
}

}  // namespace lcab

#endif  // LCAB_ATTENTION_INPUT_VALUES_H_
