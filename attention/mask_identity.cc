// When two masks are the same, and the digest that says so from afar.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "attention/mask.h"
#include "attention/mask_group.h"

namespace lcab {
namespace {

// A 64-bit hash of a sequence of words: each is mixed in by the finaliser of SplitMix64 (Steele,
// Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Hash {
 public:
  void Add(uint64_t word) {
    state_ += word + 0x9E3779B97F4A7C15U;
    state_ = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9U;
    state_ = (state_ ^ (state_ >> 27)) * 0x94D049BB133111EBU;
    state_ ^= state_ >> 31;
  }
  void Add(int64_t value) { Add(static_cast<uint64_t>(value)); }
  void Add(const std::optional<int64_t>& value) {
    Add(uint64_t{value.has_value()});
    Add(value.value_or(0));
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(uint64_t{values.size()});
    for (const T& value : values) Add(static_cast<uint64_t>(value));
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

// The bands and the block map in the form in which they are compared: no map where it keeps all,
// no bands where it keeps nothing.
HeadGroup Content(std::span<const Band> bands, const BlockMap* map) {
  HeadGroup content{{bands.begin(), bands.end()}, std::nullopt};
  if (map == nullptr || bands.empty()) return content;
  BlockMap joined = JoinAlike(*map);
  if (joined.selected.size() > 1) {
    content.block_map = std::move(joined);
  } else if (joined.selected.front() == 0) {
    content.bands.clear();
  }
  return content;
}

}  // namespace

uint64_t Mask::Digest() const {
  Hash hash;
  hash.Add(q_tokens_);
  hash.Add(k_tokens_);
  hash.Add(groups());
  for (int64_t g = 0; g < groups(); ++g) {
    const HeadGroup content = Content(bands(g), block_map(g));
    hash.Add(uint64_t{content.bands.size()});
    for (const Band& band : content.bands) {
      for (const int64_t x : {band.q0, band.q1, band.k0, band.k1}) hash.Add(x);
      hash.Add(band.lower);
      hash.Add(band.upper);
    }
    hash.Add(uint64_t{content.block_map.has_value()});
    if (!content.block_map) continue;
    hash.Add(content.block_map->row_edges);
    hash.Add(content.block_map->column_edges);
    hash.Add(content.block_map->selected);
  }
  return hash.value();
}

bool operator==(const Mask& a, const Mask& b) {
  if (a.q_tokens() != b.q_tokens() || a.k_tokens() != b.k_tokens() || a.groups() != b.groups()) {
    return false;
  }
  for (int64_t g = 0; g < a.groups(); ++g) {
    if (&a.group(g) == &b.group(g)) continue;
    const HeadGroup x = Content(a.bands(g), a.block_map(g));
    const HeadGroup y = Content(b.bands(g), b.block_map(g));
    if (x.bands != y.bands || x.block_map != y.block_map) return false;
  }
  return true;
}

}  // namespace lcab
