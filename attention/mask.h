// The exact set of (query, key) pairs that may attend, for each group of heads: the single truth
// from which every kernel, area, FLOP count, schedule and check derives.
//
//   Mask mask = Mask::FromSlices(1024, 1024, {{0, 1024, 0, 1024, SliceKind::kCausal}}).value();
//   mask.Area(0);                                  // 524,800 pairs, exact, never by N^2 work
//   mask.Classify(0, {0, 128}, {128, 256});        // TileKind::kEmpty
//
// Inside, a mask is a set of disjoint bands a group, optionally intersected with a block map.
// Bands are closed under cutting by ranges and by arithmetic progressions, slices are not: that
// is why slices are only a spelling.

#ifndef LCAB_ATTENTION_MASK_H_
#define LCAB_ATTENTION_MASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/tokens.h"

namespace lcab {

// Key j of row i is allowed when q0 <= i < q1, k0 <= j < k1, j >= i + lower and j < i + upper.
struct Band {
  int64_t q0 = 0, q1 = 0, k0 = 0, k1 = 0;
  std::optional<int64_t> lower;
  std::optional<int64_t> upper;

  friend bool operator==(const Band&, const Band&) = default;
};

// The keys a band allows row i, possibly empty.
Interval KeysOf(const Band& band, int64_t row);
// Exact number of pairs, in O(1).
int64_t AreaOf(const Band& band);

// For row i of slice [q0, q1) x [k0, k1) the allowed keys are [lo, hi) with
// lo = k0 + (i - q0 if the kind tracks the top left corner) and
// hi = k1 - (q1 - 1 - i if it tracks the bottom right one).
enum class SliceKind {
  kFull,       // tracks neither
  kCausal,     // bottom right
  kInvCausal,  // top left
  kBiCausal,   // both
};

struct Slice {
  int64_t q0 = 0, q1 = 0, k0 = 0, k1 = 0;
  SliceKind kind = SliceKind::kFull;
};

Band ToBand(const Slice& slice);

// Which tiles of an irregular grid are kept. Edges ascend strictly from 0 to the token count;
// selected[r * columns + c] says whether tile (r, c) is kept.
struct BlockMap {
  std::vector<int64_t> row_edges;     // size rows + 1
  std::vector<int64_t> column_edges;  // size columns + 1
  std::vector<uint8_t> selected;      // rows * columns, 0 or 1

  int64_t rows() const { return static_cast<int64_t>(row_edges.size()) - 1; }
  int64_t columns() const { return static_cast<int64_t>(column_edges.size()) - 1; }
  bool Selected(int64_t row, int64_t column) const {
    return selected[static_cast<size_t>(row * columns() + column)] != 0;
  }
  friend bool operator==(const BlockMap&, const BlockMap&) = default;
};

enum class TileKind { kEmpty, kFull, kPartial };

// The part of a mask that one group of heads shares.
struct HeadGroup {
  std::vector<Band> bands;
  std::optional<BlockMap> block_map;
};

class Mask {
 public:
  Mask() = default;  // no tokens, one group without pairs

  // `groups` is 1 (all heads alike) or the number of kv heads, in their order. Bands may reach
  // beyond the tokens (they are clipped) but must not overlap within a group: InvalidArgument
  // names the two that do. Also InvalidArgument: negative counts, a malformed block map.
  static absl::StatusOr<Mask> Create(int64_t q_tokens, int64_t k_tokens,
                                     std::vector<HeadGroup> groups);
  static absl::StatusOr<Mask> FromSlices(int64_t q_tokens, int64_t k_tokens,
                                         std::span<const Slice> slices);

  int64_t q_tokens() const { return q_tokens_; }
  int64_t k_tokens() const { return k_tokens_; }
  int64_t groups() const { return static_cast<int64_t>(groups_.size()); }
  // The group of a kv head: the only one, or its own.
  int64_t GroupOf(int64_t kv_head) const { return groups() == 1 ? 0 : kv_head; }

  // Disjoint, sorted by (q0, k0); the block map still to be intersected.
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
  // The same within a tile.
  int64_t Area(int64_t group, Interval rows, Interval keys) const;
  // Exact. An empty tile range is kEmpty.
  TileKind Classify(int64_t group, Interval rows, Interval keys) const;

  // What a rank sees: the pairs of `q` x `k`, in their local rows, for the groups of kv heads
  // [kv_heads.begin, kv_heads.end). Rows without a token see nothing. Striding keeps the number
  // of bands: pieces whose rows continue each other are merged.
  Mask Restrict(const TokenSet& q, const TokenSet& k, Interval kv_heads) const;

  // Rows at which the set of keys changes its form (band and block edges): sorted, unique, at most
  // `limit` of them, spread evenly when there are more. For checks at edges.
  std::vector<int64_t> EdgeRows(int64_t group, int64_t limit) const;
  std::vector<int64_t> EdgeKeys(int64_t group, int64_t limit) const;

  // A digest of the exact content (canonical form): equal masks have equal digests.
  uint64_t Digest() const;

  friend bool operator==(const Mask&, const Mask&);

 private:
  struct Index;  // rows and columns to bands, built once

  int64_t q_tokens_ = 0;
  int64_t k_tokens_ = 0;
  std::vector<HeadGroup> groups_ = std::vector<HeadGroup>(1);
  std::vector<std::shared_ptr<const Index>> index_;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_MASK_H_
