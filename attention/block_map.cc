// Block maps: checks, the form with fewest blocks, and what a subset of the tokens sees.

#include "attention/block_map.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "fmt/format.h"

namespace lcab {
namespace {

absl::Status ValidateEdges(const std::vector<int64_t>& edges, int64_t tokens,
                           std::string_view what) {
  if (edges.empty() || edges.front() != 0 || edges.back() != tokens) {
    return absl::InvalidArgumentError(
        fmt::format("block map: {} edges must run from 0 to {} tokens", what, tokens));
  }
  for (size_t i = 1; i < edges.size(); ++i) {
    if (edges[i] <= edges[i - 1]) {
      return absl::InvalidArgumentError(
          fmt::format("block map: {} edges must ascend, but edge {} is {} after {}", what, i,
                      edges[i], edges[i - 1]));
    }
  }
  return absl::OkStatus();
}

// Local rows cut where the block changes: edges from 0 to the number of rows, and the block of
// each part.
struct Parts {
  std::vector<int64_t> edges;
  std::vector<int64_t> blocks;
};

Parts CutByBlocks(const std::vector<int64_t>& edges, const TokenSet& tokens) {
  Parts parts;
  for (const TokenPiece& piece : tokens.pieces()) {
    for (int64_t n = 0; n < piece.count;) {
      const int64_t block = BlockOf(edges, piece.first + n * piece.stride);
      if (parts.blocks.empty() || parts.blocks.back() != block) {
        parts.edges.push_back(parts.blocks.empty() ? 0 : piece.local_row + n);
        parts.blocks.push_back(block);
      }
      const int64_t beyond = edges[static_cast<size_t>(block) + 1] - piece.first;
      n = (beyond + piece.stride - 1) / piece.stride;
    }
  }
  parts.edges.push_back(tokens.rows());
  return parts;
}

}  // namespace

absl::Status Validate(const BlockMap& map, int64_t q_tokens, int64_t k_tokens) {
  if (absl::Status status = ValidateEdges(map.row_edges, q_tokens, "row"); !status.ok()) {
    return status;
  }
  if (absl::Status status = ValidateEdges(map.column_edges, k_tokens, "column"); !status.ok()) {
    return status;
  }
  if (map.selected.size() != static_cast<size_t>(map.rows() * map.columns())) {
    return absl::InvalidArgumentError(
        fmt::format("block map: {} x {} blocks need as many selected entries, not {}", map.rows(),
                    map.columns(), map.selected.size()));
  }
  if (std::any_of(map.selected.begin(), map.selected.end(), [](uint8_t s) { return s > 1; })) {
    return absl::InvalidArgumentError("block map: selected entries must be 0 or 1");
  }
  return absl::OkStatus();
}

int64_t BlockOf(const std::vector<int64_t>& edges, int64_t token) {
  return std::upper_bound(edges.begin(), edges.end(), token) - edges.begin() - 1;
}

BlockMap JoinAlike(const BlockMap& map) {
  const auto columns = static_cast<size_t>(map.columns());
  const auto row_begin = [&](int64_t row) {
    return map.selected.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * columns);
  };
  std::vector<int64_t> kept_rows;
  for (int64_t r = 0; r < map.rows(); ++r) {
    if (r == 0 || !std::equal(row_begin(r), row_begin(r + 1), row_begin(r - 1))) {
      kept_rows.push_back(r);
    }
  }
  std::vector<uint8_t> differs(columns, 0);  // from the column before it
  for (const int64_t r : kept_rows) {
    for (size_t c = 1; c < columns; ++c) {
      differs[c] |= static_cast<uint8_t>(row_begin(r)[static_cast<ptrdiff_t>(c)] !=
                                         row_begin(r)[static_cast<ptrdiff_t>(c) - 1]);
    }
  }
  std::vector<int64_t> kept_columns;
  for (size_t c = 0; c < columns; ++c) {
    if (c == 0 || differs[c] != 0) kept_columns.push_back(static_cast<int64_t>(c));
  }

  BlockMap joined;
  for (const int64_t r : kept_rows) {
    joined.row_edges.push_back(map.row_edges[static_cast<size_t>(r)]);
    for (const int64_t c : kept_columns) joined.selected.push_back(map.Selected(r, c) ? 1 : 0);
  }
  for (const int64_t c : kept_columns) {
    joined.column_edges.push_back(map.column_edges[static_cast<size_t>(c)]);
  }
  joined.row_edges.push_back(map.row_edges.back());
  joined.column_edges.push_back(map.column_edges.back());
  return joined;
}

BlockMap Restrict(const BlockMap& map, const TokenSet& q, const TokenSet& k) {
  const Parts rows = CutByBlocks(map.row_edges, q);
  const Parts columns = CutByBlocks(map.column_edges, k);
  BlockMap local{rows.edges, columns.edges, {}};
  local.selected.reserve(rows.blocks.size() * columns.blocks.size());
  for (const int64_t row : rows.blocks) {
    for (const int64_t column : columns.blocks) {
      local.selected.push_back(map.Selected(row, column) ? 1 : 0);
    }
  }
  return local;
}

}  // namespace lcab
