// For tests: a mask written out pair by pair, to hold closed forms against counting.

#ifndef LCAB_ATTENTION_DENSE_PAIRS_FOR_TEST_H_
#define LCAB_ATTENTION_DENSE_PAIRS_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/mask.h"

namespace lcab {

// rows x columns truth values.
class DensePairs {
 public:
  DensePairs(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), bits_(static_cast<size_t>(rows * columns), 0) {}

  // allows(i, j) for each pair.
  template <typename Allows>
  static DensePairs From(int64_t rows, int64_t columns, Allows&& allows) {
    DensePairs pairs(rows, columns);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) pairs.Set(i, j, allows(i, j));
    }
    return pairs;
  }

  // The definition of a band, pair by pair.
  static bool InBand(const Band& band, int64_t i, int64_t j) {
    return band.q0 <= i && i < band.q1 && band.k0 <= j && j < band.k1 &&
           (!band.lower || j >= i + *band.lower) && (!band.upper || j < i + *band.upper);
  }

  // What a mask says row by row, through RowKeys().
  static DensePairs FromRowKeys(const Mask& mask, int64_t group) {
    DensePairs pairs(mask.q_tokens(), mask.k_tokens());
    std::vector<Interval> keys;
    for (int64_t i = 0; i < mask.q_tokens(); ++i) {
      mask.RowKeys(group, i, &keys);
      for (const Interval& interval : keys) {
        for (int64_t j = interval.begin; j < interval.end; ++j) pairs.Set(i, j, true);
      }
    }
    return pairs;
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  bool At(int64_t i, int64_t j) const { return bits_[static_cast<size_t>(i * columns_ + j)] != 0; }
  void Set(int64_t i, int64_t j, bool allowed) {
    bits_[static_cast<size_t>(i * columns_ + j)] = allowed ? 1 : 0;
  }
  int64_t Count(Interval rows, Interval columns) const {
    int64_t count = 0;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      for (int64_t j = columns.begin; j < columns.end; ++j) count += At(i, j) ? 1 : 0;
    }
    return count;
  }
  int64_t Count() const { return Count({0, rows_}, {0, columns_}); }

  friend bool operator==(const DensePairs&, const DensePairs&) = default;

 private:
  int64_t rows_;
  int64_t columns_;
  std::vector<uint8_t> bits_;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_DENSE_PAIRS_FOR_TEST_H_
