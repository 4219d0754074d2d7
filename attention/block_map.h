// Which tiles of a grid are kept: the part of a mask that block-sparse attention chooses.

#ifndef LCAB_ATTENTION_BLOCK_MAP_H_
#define LCAB_ATTENTION_BLOCK_MAP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "attention/tokens.h"

namespace lcab {

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
  Interval RowTokens(int64_t row) const {
    return {row_edges[static_cast<size_t>(row)], row_edges[static_cast<size_t>(row) + 1]};
  }
  Interval ColumnTokens(int64_t column) const {
    return {column_edges[static_cast<size_t>(column)],
            column_edges[static_cast<size_t>(column) + 1]};
  }
  friend bool operator==(const BlockMap&, const BlockMap&) = default;
};

// InvalidArgument: edges that do not ascend from 0 to the token counts, a wrong number of
// selected entries, or others than 0 and 1.
absl::Status Validate(const BlockMap& map, int64_t q_tokens, int64_t k_tokens);

// The block that token `token` is in, for edges that hold it.
int64_t BlockOf(const std::vector<int64_t>& edges, int64_t token);

// The same selection with as few rows and columns as it takes: neighbours that are alike joined.
BlockMap JoinAlike(const BlockMap& map);

// What is selected for the tokens of `q` and `k` in their local rows. Each set must hold a token;
// rows without one belong to the block before them.
BlockMap Restrict(const BlockMap& map, const TokenSet& q, const TokenSet& k);

}  // namespace lcab

#endif  // LCAB_ATTENTION_BLOCK_MAP_H_
