// How rows of floats are laid out for the inner loops: cut into strips of one to three vectors,
// each strip contiguous over all rows. A loop over rows then reads memory in order, however wide
// the rows are.

#ifndef LCAB_KERNELS_CPU_STRIP_LAYOUT_H_
#define LCAB_KERNELS_CPU_STRIP_LAYOUT_H_

#include <algorithm>
#include <cstdint>

namespace lcab {

class StripLayout {
 public:
  static constexpr int64_t kMostVectors = 3;  // of a strip

  StripLayout() = default;
  // Rows of `dim` floats, padded to whole vectors of `lanes` floats.
  StripLayout(int64_t dim, int64_t lanes)
      : lanes_(lanes),
        vectors_((dim + lanes - 1) / lanes),
        strips_((vectors_ + kMostVectors - 1) / kMostVectors) {}

  int64_t strips() const { return strips_; }
  int64_t padded_dim() const { return vectors_ * lanes_; }
  // As even as can be, the wider ones first.
  int64_t Vectors(int64_t strip) const {
    return vectors_ / strips_ + (strip < vectors_ % strips_ ? 1 : 0);
  }
  int64_t Width(int64_t strip) const { return Vectors(strip) * lanes_; }
  // The first column of a strip.
  int64_t Column(int64_t strip) const {
    return (vectors_ / strips_ * strip + std::min(strip, vectors_ % strips_)) * lanes_;
  }
  // Where row `row` of a strip begins, in floats, in a buffer of `rows` rows.
  int64_t Offset(int64_t strip, int64_t row, int64_t rows) const {
    return Column(strip) * rows + row * Width(strip);
  }

 private:
  int64_t lanes_ = 1;
  int64_t vectors_ = 0;
  int64_t strips_ = 0;
};

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_STRIP_LAYOUT_H_
