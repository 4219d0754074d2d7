// Builds the tree from the top: halves the bands along the axis on which they spread more.

#include "attention/band_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lcab {
namespace {

constexpr int32_t kLeafBands = 4;

}  // namespace

BandTree::BandTree(std::span<const Band> bands) : bands_(bands) {
  order_.resize(bands.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (!bands.empty()) Build(0, static_cast<int32_t>(bands.size()));
}

int32_t BandTree::Build(int32_t begin, int32_t end) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Node node{kMax, kMin, kMax, kMin, begin, end, -1, -1};
  // Twice the centres, to stay with integers.
  Interval q_centres{kMax, kMin}, k_centres{kMax, kMin};
  for (int32_t i = begin; i < end; ++i) {
    const Band& band = bands_[static_cast<size_t>(order_[static_cast<size_t>(i)])];
    node.q0 = std::min(node.q0, band.q0);
    node.q1 = std::max(node.q1, band.q1);
    node.k0 = std::min(node.k0, band.k0);
    node.k1 = std::max(node.k1, band.k1);
    q_centres = {std::min(q_centres.begin, band.q0 + band.q1),
                 std::max(q_centres.end, band.q0 + band.q1)};
    k_centres = {std::min(k_centres.begin, band.k0 + band.k1),
                 std::max(k_centres.end, band.k0 + band.k1)};
  }
  const auto index = static_cast<int32_t>(nodes_.size());
  nodes_.push_back(node);
  if (end - begin <= kLeafBands) return index;

  const bool by_rows = q_centres.size() >= k_centres.size();
  const int32_t middle = begin + (end - begin) / 2;
  std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                   [this, by_rows](int32_t a, int32_t b) {
                     const Band& x = bands_[static_cast<size_t>(a)];
                     const Band& y = bands_[static_cast<size_t>(b)];
                     return by_rows ? x.q0 + x.q1 < y.q0 + y.q1 : x.k0 + x.k1 < y.k0 + y.k1;
                   });
  // Build() appends to nodes_: indices, not references, across the calls.
  const int32_t left = Build(begin, middle);
  const int32_t right = Build(middle, end);
  nodes_[static_cast<size_t>(index)].left = left;
  nodes_[static_cast<size_t>(index)].right = right;
  return index;
}

}  // namespace lcab
