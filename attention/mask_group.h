// The content of a mask for one group of heads; only the sources of Mask include this.

#ifndef LCAB_ATTENTION_MASK_GROUP_H_
#define LCAB_ATTENTION_MASK_GROUP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/band_tree.h"
#include "attention/mask.h"

namespace lcab {

struct Mask::Group {
  Group(std::vector<Band> canonical, std::optional<BlockMap> map);
  Group(const Group&) = delete;  // the tree points into `bands`
  Group& operator=(const Group&) = delete;

  // Allowed pairs in `rows` x `keys`, which lie within the tokens; without and with the block map.
  int64_t AreaOfBands(Interval rows, Interval keys) const;
  int64_t AreaIn(Interval rows, Interval keys) const;

  std::vector<Band> bands;
  std::optional<BlockMap> block_map;
  BandTree tree;  // of `bands`
  int64_t area = 0;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_MASK_GROUP_H_
