// Closed forms for one band.

#include "attention/bands.h"

#include <algorithm>

#include "fmt/format.h"

namespace lcab {
namespace {

// The sum of an arithmetic progression from `first` to `last` with step 1.
int64_t SumOf(int64_t first, int64_t last) {
  const int64_t count = last - first + 1;
  if (count <= 0) return 0;
  return count % 2 == 0 ? count / 2 * (first + last) : count * ((first + last) / 2);
}

}  // namespace

std::string Text(const Band& band) {
  std::string text = fmt::format("q[{},{}) x k[{},{})", band.q0, band.q1, band.k0, band.k1);
  if (band.lower) text += fmt::format(" with j >= i {:+}", *band.lower);
  if (band.upper) text += fmt::format("{} j < i {:+}", band.lower ? " and" : " with", *band.upper);
  return text;
}

Interval KeysOf(const Band& band, int64_t row) {
  if (row < band.q0 || row >= band.q1) return {};
  Interval keys{band.k0, band.k1};
  if (band.lower) keys.begin = std::max(keys.begin, row + *band.lower);
  if (band.upper) keys.end = std::min(keys.end, row + *band.upper);
  return keys.empty() ? Interval{} : keys;
}

Interval RowsOf(const Band& band, int64_t key) {
  if (key < band.k0 || key >= band.k1) return {};
  Interval rows{band.q0, band.q1};
  if (band.lower) rows.end = std::min(rows.end, key - *band.lower + 1);
  if (band.upper) rows.begin = std::max(rows.begin, key - *band.upper + 1);
  return rows.empty() ? Interval{} : rows;
}

Band Trim(const Band& band) {
  Band t = band;
  if (t.lower && t.upper && *t.lower >= *t.upper) return {};
  // Rows whose keys would end before k0 or begin at k1 have none.
  if (t.upper) t.q0 = std::max(t.q0, t.k0 - *t.upper + 1);
  if (t.lower) t.q1 = std::min(t.q1, t.k1 - *t.lower);
  if (t.q0 >= t.q1 || t.k0 >= t.k1) return {};
  // Now every row has a key, and keys of neighbouring rows touch: what they span is all seen.
  if (t.lower) t.k0 = std::max(t.k0, t.q0 + *t.lower);
  if (t.upper) t.k1 = std::min(t.k1, t.q1 - 1 + *t.upper);
  if (t.lower && t.q1 - 1 + *t.lower <= t.k0) t.lower.reset();
  if (t.upper && t.q0 + *t.upper >= t.k1) t.upper.reset();
  return t;
}

Band Clip(const Band& band, Interval rows, Interval keys) {
  Band cut = band;
  cut.q0 = std::max(cut.q0, rows.begin);
  cut.q1 = std::min(cut.q1, rows.end);
  cut.k0 = std::max(cut.k0, keys.begin);
  cut.k1 = std::min(cut.k1, keys.end);
  return Trim(cut);
}

int64_t AreaOf(const Band& band) {
  const Band t = Trim(band);
  const int64_t rows = t.q1 - t.q0;
  int64_t area = rows * (t.k1 - t.k0);
  // Less what the bounds cut off: growing row by row under the lower one, shrinking under the
  // upper.
  if (t.lower) area -= SumOf(1, t.q1 - 1 + *t.lower - t.k0);
  if (t.upper) area -= SumOf(1, t.k1 - (t.q0 + *t.upper));
  return area;
}

Band ToBand(const Slice& slice) {
  Band band{slice.q0, slice.q1, slice.k0, slice.k1, {}, {}};
  if (slice.kind == SliceKind::kInvCausal || slice.kind == SliceKind::kBiCausal) {
    band.lower = slice.k0 - slice.q0;
  }
  if (slice.kind == SliceKind::kCausal || slice.kind == SliceKind::kBiCausal) {
    band.upper = slice.k1 - slice.q1 + 1;
  }
  return band;
}

}  // namespace lcab
