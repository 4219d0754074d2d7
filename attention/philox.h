// Philox4x32-10, a counter-based generator: Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC 2011). Any block of four numbers can be made alone, on any machine, bit for bit.

#ifndef LCAB_ATTENTION_PHILOX_H_
#define LCAB_ATTENTION_PHILOX_H_

#include <array>
#include <cstdint>

namespace lcab {

using PhiloxBlock = std::array<uint32_t, 4>;

// Usable on devices too: plain integer arithmetic, no tables, no library calls.
constexpr PhiloxBlock Philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiply0 * counter[0];
    const uint64_t product1 = kMultiply1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// A stream of draws for host code: a seed, a purpose (so that two uses of a seed differ) and a
// position.
class PhiloxStream {
 public:
  constexpr PhiloxStream(uint64_t seed, uint32_t purpose, uint32_t substream = 0)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        purpose_(purpose),
        substream_(substream) {}

  constexpr uint32_t Next32() {
    if (used_ == 4) {
      block_ = Philox({static_cast<uint32_t>(position_), static_cast<uint32_t>(position_ >> 32),
                       purpose_, substream_},
                      key_);
      ++position_;
      used_ = 0;
    }
    return block_[used_++];
  }
  constexpr uint64_t Next64() {
    const uint64_t low = Next32();
    return low | static_cast<uint64_t>(Next32()) << 32;
  }
  // Uniform on {0, ..., bound - 1}, without bias: draws below 2^64 mod bound are rejected.
  // bound >= 1.
  constexpr uint64_t Below(uint64_t bound) {
    const uint64_t threshold = (0 - bound) % bound;
    while (true) {
      const uint64_t x = Next64();
      if (x >= threshold) return x % bound;
    }
  }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t purpose_;
  uint32_t substream_;
  uint64_t position_ = 0;
  PhiloxBlock block_{};
  uint32_t used_ = 4;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_PHILOX_H_
