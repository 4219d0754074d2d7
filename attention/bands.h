// Bands and slices: the shapes of which masks are made, and their arithmetic in constant time.

#ifndef LCAB_ATTENTION_BANDS_H_
#define LCAB_ATTENTION_BANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/tokens.h"

namespace lcab {

// Key j of row i is allowed when q0 <= i < q1, k0 <= j < k1, j >= i + lower and j < i + upper.
// The functions below take coordinates and bounds of any sign up to 2^40.
struct Band {
  int64_t q0 = 0, q1 = 0, k0 = 0, k1 = 0;
  std::optional<int64_t> lower;
  std::optional<int64_t> upper;

  friend bool operator==(const Band&, const Band&) = default;
};

// "q[0,8) x k[0,8) with j >= i - 3 and j < i + 1", for messages.
std::string Text(const Band& band);

// The keys a band allows row i, possibly empty.
Interval KeysOf(const Band& band, int64_t row);
// The rows to which a band allows key j, possibly empty.
Interval RowsOf(const Band& band, int64_t key);

// The same pairs with the smallest ranges, and without bounds that cut nothing. Afterwards each
// row of the ranges has a key and each key a row. A band without pairs becomes Band{}.
Band Trim(const Band& band);

// The pairs that are also in `rows` x `keys`, trimmed.
Band Clip(const Band& band, Interval rows, Interval keys);

// Exact number of pairs, in O(1).
int64_t AreaOf(const Band& band);

// The one list of disjoint bands for the pairs that `bands` hold together, sorted by (q0, k0):
// equal sets of pairs give equal lists, and few bands. In each row the keys are taken as maximal
// intervals; going down the rows, an interval whose ends each stay or move on by one continues a
// band for as long as a band's form lets it.
// InvalidArgument names two bands that overlap. Time: sort, plus for each row at which a band
// begins, ends or bends the number of bands in that row.
absl::StatusOr<std::vector<Band>> Canonical(std::vector<Band> bands);

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

}  // namespace lcab

#endif  // LCAB_ATTENTION_BANDS_H_
