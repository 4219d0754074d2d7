// Finds the bands that touch a rectangle without looking at the others: a tree of bounding boxes.

#ifndef LCAB_ATTENTION_BAND_TREE_H_
#define LCAB_ATTENTION_BAND_TREE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attention/bands.h"

namespace lcab {

class BandTree {
 public:
  // `bands` are trimmed and must outlive the tree, at the same address.
  explicit BandTree(std::span<const Band> bands);

  // Calls visit(const Band&) for each band whose ranges meet `rows` x `keys`, in no order. Time:
  // the bands found, times the logarithm of all.
  template <typename Visit>
  void ForEachTouching(Interval rows, Interval keys, Visit&& visit) const {
    if (!nodes_.empty()) Descend(0, rows, keys, visit);
  }

 private:
  struct Node {
    int64_t q0, q1, k0, k1;  // around all bands below
    int32_t begin, end;      // of a leaf, in order_
    int32_t left, right;     // of an inner node; a leaf has none (-1)
  };

  int32_t Build(int32_t begin, int32_t end);

  template <typename Visit>
  void Descend(int32_t index, Interval rows, Interval keys, Visit& visit) const {
    const Node& node = nodes_[static_cast<size_t>(index)];
    if (node.q1 <= rows.begin || node.q0 >= rows.end || node.k1 <= keys.begin ||
        node.k0 >= keys.end) {
      return;
    }
    if (node.left >= 0) {
      Descend(node.left, rows, keys, visit);
      Descend(node.right, rows, keys, visit);
      return;
    }
    for (int32_t i = node.begin; i < node.end; ++i) {
      const Band& band = bands_[static_cast<size_t>(order_[static_cast<size_t>(i)])];
      if (band.q1 > rows.begin && band.q0 < rows.end && band.k1 > keys.begin &&
          band.k0 < keys.end) {
        visit(band);
      }
    }
  }

  std::span<const Band> bands_;
  std::vector<int32_t> order_;
  std::vector<Node> nodes_;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_BAND_TREE_H_
