// The exact set of (query, key) pairs that may attend, for each group of heads: the single truth
// from which every kernel, area, FLOP count, schedule and check derives.
//
//   Mask mask = Mask::FromSlices(1024, 1024, {{0, 1024, 0, 1024, SliceKind::kCausal}}).value();
//   mask.Area(0);                                  // 524,800 pairs, exact, never by N^2 work
//   mask.Classify(0, {0, 128}, {128, 256});        // TileKind::kEmpty
//
// Inside, a mask is a set of disjoint bands a group, optionally intersected with a block map.
// Bands are closed under cutting by ranges and by arithmetic progressions, slices are not: that
// is why slices are only a spelling. A Mask is an immutable value; copies share their content.

#ifndef LCAB_ATTENTION_MASK_H_
#define LCAB_ATTENTION_MASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/bands.h"
#include "attention/block_map.h"
#include "attention/tokens.h"

namespace lcab {

enum class TileKind { kEmpty, kFull, kPartial };

// The part of a mask that one group of heads shares.
struct HeadGroup {
  std::vector<Band> bands;
  std::optional<BlockMap> block_map;
};

class Mask {
 public:
  static constexpr int64_t kMaxTokens = int64_t{1} << 31;  // so that areas fit 63 bits

  Mask();  // no tokens, one group without pairs

  // `groups` is 1 (all heads alike) or the number of kv heads, in their order. Bands may reach
  // beyond the tokens (they are clipped) but must not overlap within a group: InvalidArgument
  // names the two that do. Also InvalidArgument: no group, token counts outside 0..kMaxTokens, a
  // malformed block map.
  static absl::StatusOr<Mask> Create(int64_t q_tokens, int64_t k_tokens,
                                     std::vector<HeadGroup> groups);
  // One group for all heads. Also InvalidArgument: a slice that ends before it begins.
  static absl::StatusOr<Mask> FromSlices(int64_t q_tokens, int64_t k_tokens,
                                         std::span<const Slice> slices);

  int64_t q_tokens() const { return q_tokens_; }
  int64_t k_tokens() const { return k_tokens_; }
  int64_t groups() const { return static_cast<int64_t>(groups_.size()); }
  // The group of a kv head: the only one, or its own.
  int64_t GroupOf(int64_t kv_head) const { return groups() == 1 ? 0 : kv_head; }

  // In the canonical form of bands.h, whatever the mask was made from: disjoint, trimmed, sorted
  // by (q0, k0). The block map is still to be intersected.
  std::span<const Band> bands(int64_t group) const;
  const BlockMap* block_map(int64_t group) const;  // nullptr: none

  // The keys of row `row`: sorted, disjoint, non-adjacent, non-empty intervals, appended to
  // `keys` after clearing it.
  void RowKeys(int64_t group, int64_t row, std::vector<Interval>* keys) const;
  // The rows that see key `key`, likewise.
  void ColumnRows(int64_t group, int64_t key, std::vector<Interval>* rows) const;
  int64_t RowCount(int64_t group, int64_t row) const;
  int64_t ColumnCount(int64_t group, int64_t key) const;
  bool Allows(int64_t group, int64_t row, int64_t key) const;

  // Exact number of allowed pairs of one head of the group, in time that follows bands and blocks,
  // never pairs.
  int64_t Area(int64_t group) const;
  // The same within a tile, in time that follows the bands and blocks that touch it.
  int64_t Area(int64_t group, Interval rows, Interval keys) const;
  // Exact. An empty tile is kEmpty. Pairs beyond the tokens are not allowed, so a tile that sticks
  // out is partial at most.
  TileKind Classify(int64_t group, Interval rows, Interval keys) const;

  // What a rank sees: the pairs of `q` x `k`, in their local rows, for the groups of kv heads
  // [kv_heads.begin, kv_heads.end). Rows without a token see nothing and are not seen. Queries and
  // keys of equal stride keep the form of bands; pieces whose rows continue each other are merged;
  // unequal strides cost up to one band a row. A block map loses its regular edges.
  Mask Restrict(const TokenSet& q, const TokenSet& k, Interval kv_heads) const;

  // Rows at which the set of keys changes its form (band and block edges): sorted, unique, at most
  // `limit` of them, spread evenly when there are more. For checks at edges.
  std::vector<int64_t> EdgeRows(int64_t group, int64_t limit) const;
  std::vector<int64_t> EdgeKeys(int64_t group, int64_t limit) const;

  // A digest of the pairs and token counts: equal masks have equal digests, whatever they were
  // made from. (Two masks with block maps count as equal when their bands are and their maps are,
  // after neighbouring rows and columns of blocks that are alike have been joined.)
  uint64_t Digest() const;

  friend bool operator==(const Mask&, const Mask&);

 private:
  struct Group;  // bands, block map and what is computed from them once; shared by copies

  Mask(int64_t q_tokens, int64_t k_tokens, std::vector<std::shared_ptr<const Group>> groups);
  static std::shared_ptr<const Group> MakeGroup(std::vector<Band> canonical,
                                                std::optional<BlockMap> block_map);
  const Group& group(int64_t index) const { return *groups_[static_cast<size_t>(index)]; }

  int64_t q_tokens_ = 0;
  int64_t k_tokens_ = 0;
  std::vector<std::shared_ptr<const Group>> groups_;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_MASK_H_
