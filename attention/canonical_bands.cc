// One list of bands for each set of pairs: a sweep down the rows, segment by segment.
//
// Disjoint bands never swap places from one row to the next: their ends move by at most one and
// each holds a key in between. So a list of the bands in the present row, sorted by first key,
// stays sorted while bands come and go.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "attention/bands.h"
#include "fmt/format.h"

namespace lcab {
namespace {

// Keys [begin + n * begin_step, end + n * end_step) of the n-th row of a segment; steps are 0 or 1.
struct Strip {
  int64_t begin = 0, end = 0;
  int64_t begin_step = 0, end_step = 0;

  Strip From(int64_t n) const {
    return {begin + n * begin_step, end + n * end_step, begin_step, end_step};
  }
};

// The form of a trimmed band from `row` on, up to the next row at which it ends or bends.
Strip StripOf(const Band& band, int64_t row) {
  const Interval keys = KeysOf(band, row);
  return {keys.begin, keys.end, band.lower && row + *band.lower >= band.k0 ? 1 : 0,
          band.upper && row + *band.upper < band.k1 ? 1 : 0};
}

// A band that grows row by row, for as long as its ends keep to a band's form: the first key stays,
// then moves on by one a row; the last key moves on by one a row, then stays.
class GrowingBand {
 public:
  GrowingBand(int64_t row, Interval keys) : first_row_(row), first_(keys), row_(row), keys_(keys) {}

  const Interval& keys() const { return keys_; }  // of the last row

  // Adds `rows` rows in which the ends move by these steps. False: the form does not allow it.
  bool Grow(int64_t begin_step, int64_t end_step, int64_t rows) {
    if (begin_step < 0 || begin_step > 1 || end_step < 0 || end_step > 1) return false;
    if ((begin_step == 0 && lower_from_) || (end_step == 1 && level_from_)) return false;
    if (begin_step == 1 && !lower_from_) lower_from_ = row_;
    if (end_step == 0 && !level_from_) level_from_ = row_;
    row_ += rows;
    keys_.begin += rows * begin_step;
    keys_.end += rows * end_step;
    return true;
  }

  Band Finish() const {
    Band band{first_row_, row_ + 1, first_.begin, keys_.end, {}, {}};
    if (lower_from_) band.lower = first_.begin - *lower_from_;
    if (first_.end < keys_.end) band.upper = first_.end - first_row_;
    return band;
  }

 private:
  int64_t first_row_;
  Interval first_;
  int64_t row_;
  Interval keys_;
  std::optional<int64_t> lower_from_;  // the row from which the first key moves
  std::optional<int64_t> level_from_;  // the row from which the last key stays
};

// Takes strips of consecutive rows and emits bands.
class Weaver {
 public:
  // Rows [row, row + rows), whose keys are `strips`: ascending, disjoint and not adjacent.
  void Add(int64_t row, int64_t rows, const std::vector<Strip>& strips) {
    if (row != next_row_) FinishAll();
    next_row_ = row + rows;
    std::vector<GrowingBand> grown;
    grown.reserve(strips.size());
    auto old = growing_.begin();
    for (const Strip& strip : strips) {
      // At most one of the old ones can be continued by this strip, and they ascend too.
      for (; old != growing_.end() && old->keys().begin < strip.begin - 1; ++old) {
        finished_.push_back(old->Finish());
      }
      const Interval keys{strip.begin, strip.end};
      if (old != growing_.end() &&
          old->Grow(strip.begin - old->keys().begin, strip.end - old->keys().end, 1)) {
        grown.push_back(*old++);
      } else {
        grown.emplace_back(row, keys);
      }
      if (rows > 1 && !grown.back().Grow(strip.begin_step, strip.end_step, rows - 1)) {
        finished_.push_back(grown.back().Finish());
        const Strip next = strip.From(1);
        grown.back() = GrowingBand(row + 1, {next.begin, next.end});
        if (rows > 2) (void)grown.back().Grow(strip.begin_step, strip.end_step, rows - 2);
      }
    }
    for (; old != growing_.end(); ++old) finished_.push_back(old->Finish());
    growing_ = std::move(grown);
  }

  std::vector<Band> Finish() {
    FinishAll();
    std::sort(finished_.begin(), finished_.end(), [](const Band& a, const Band& b) {
      return std::pair(a.q0, a.k0) < std::pair(b.q0, b.k0);
    });
    return std::move(finished_);
  }

 private:
  void FinishAll() {
    for (const GrowingBand& band : growing_) finished_.push_back(band.Finish());
    growing_.clear();
  }

  int64_t next_row_ = 0;
  std::vector<GrowingBand> growing_;  // those of the last row
  std::vector<Band> finished_;
};

// Joins strips that touch in the first of their rows.
void JoinTouching(const std::vector<Strip>& strips, int64_t from, std::vector<Strip>* joined) {
  joined->clear();
  for (const Strip& whole : strips) {
    const Strip strip = whole.From(from);
    if (!joined->empty() && joined->back().end == strip.begin) {
      joined->back().end = strip.end;
      joined->back().end_step = strip.end_step;
    } else {
      joined->push_back(strip);
    }
  }
}

// Rows at which a band begins, ends or bends.
std::vector<int64_t> BreakRows(const std::vector<Band>& bands) {
  std::vector<int64_t> rows;
  for (const Band& band : bands) {
    rows.push_back(band.q0);
    rows.push_back(band.q1);
    if (band.lower) rows.push_back(band.k0 - *band.lower);
    if (band.upper) rows.push_back(band.k1 - *band.upper);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<Band>> Canonical(std::vector<Band> bands) {
  for (Band& band : bands) band = Trim(band);
  std::erase_if(bands, [](const Band& band) { return band.q0 == band.q1; });
  std::sort(bands.begin(), bands.end(), [](const Band& a, const Band& b) { return a.q0 < b.q0; });

  Weaver weaver;
  std::vector<const Band*> present;  // the bands of the segment, by first key
  std::vector<Strip> strips, joined;
  auto next = bands.begin();
  const std::vector<int64_t> breaks = BreakRows(bands);
  for (size_t b = 0; b + 1 < breaks.size(); ++b) {
    const int64_t row = breaks[b];
    const int64_t rows = breaks[b + 1] - row;
    std::erase_if(present, [row](const Band* band) { return band->q1 == row; });
    for (; next != bands.end() && next->q0 == row; ++next) {
      const int64_t begin = KeysOf(*next, row).begin;
      const auto place = std::upper_bound(
          present.begin(), present.end(), begin,
          [row](int64_t key, const Band* p) { return key < KeysOf(*p, row).begin; });
      present.insert(place, &*next);
    }
    if (present.empty()) continue;

    strips.clear();
    for (const Band* band : present) strips.push_back(StripOf(*band, row));
    // Neighbours may touch in all rows of the segment, in its first one or in its last one only.
    bool first_apart = false, last_apart = false;
    for (size_t i = 1; i < strips.size(); ++i) {
      const int64_t widening = strips[i].begin_step - strips[i - 1].end_step;
      const int64_t first_gap = strips[i].begin - strips[i - 1].end;
      const int64_t last_gap = first_gap + (rows - 1) * widening;
      if (first_gap < 0 || last_gap < 0) {
        return absl::InvalidArgumentError(fmt::format(
            "bands {} and {} overlap in row {}; each pair may be in one band only",
            Text(*present[i - 1]), Text(*present[i]), first_gap < 0 ? row : row + rows - 1));
      }
      first_apart |= rows > 1 && widening > 0 && first_gap == 0;
      last_apart |= rows > 1 && widening < 0 && last_gap == 0;
    }
    const int64_t parts[] = {0, first_apart ? 1 : 0, last_apart ? rows - 1 : rows, rows};
    for (size_t i = 0; i + 1 < std::size(parts); ++i) {
      if (parts[i] == parts[i + 1]) continue;
      JoinTouching(strips, parts[i], &joined);
      weaver.Add(row + parts[i], parts[i + 1] - parts[i], joined);
    }
  }
  return weaver.Finish();
}

}  // namespace lcab
