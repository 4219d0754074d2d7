// Random block maps: for each row of blocks a given share of the columns, one map for each kv head.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "attention/draws.h"
#include "attention/mask_families.h"
#include "fmt/format.h"

namespace lcab {
namespace {

constexpr double kMostTokens = static_cast<double>(Mask::kMaxTokens);
constexpr int64_t kMostBlocks = int64_t{1} << 31;  // of one map: a byte each
constexpr double kLeastKept = 1e-9;

std::vector<int64_t> UniformEdges(int64_t tokens, int64_t block) {
  std::vector<int64_t> edges;
  for (int64_t edge = 0; edge < tokens; edge += block) edges.push_back(edge);
  edges.push_back(tokens);
  return edges;
}

// As many blocks as the average says, each of the least size, and what is left cut at random.
std::vector<int64_t> RandomEdges(int64_t tokens, int64_t average, int64_t least,
                                 PhiloxStream* random) {
  if (tokens == 0) return {0};
  const int64_t blocks = std::max<int64_t>(tokens / average, 1);
  const int64_t left = std::max<int64_t>(tokens - blocks * least, 0);
  std::vector<int64_t> cuts;
  for (int64_t n = 1; n < blocks; ++n) {
    cuts.push_back(static_cast<int64_t>(random->Below(static_cast<uint64_t>(left) + 1)));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<int64_t> edges = {0};
  for (size_t n = 0; n < cuts.size(); ++n) {
    edges.push_back(static_cast<int64_t>(n + 1) * least + cuts[n]);
  }
  edges.push_back(tokens);
  return edges;
}

// In each row of blocks, the columns with the smallest draws (of equal ones, the lower column).
std::vector<uint8_t> Select(int64_t rows, int64_t columns, double keep, PhiloxStream* random) {
  std::vector<uint8_t> selected(static_cast<size_t>(rows * columns), 0);
  const auto wanted = std::clamp<int64_t>(
      static_cast<int64_t>(std::floor(keep * static_cast<double>(columns) + 0.5)), 1, columns);
  std::vector<uint32_t> draws(static_cast<size_t>(columns));
  // Draws by their highest bits, about one in a bucket: only in the bucket that holds the last of
  // those wanted are they compared with each other.
  const int shift = 32 - std::min<int>(std::bit_width(static_cast<uint64_t>(columns)), 32);
  std::vector<int64_t> counts((uint64_t{0xFFFFFFFF} >> shift) + 1);
  std::vector<std::pair<uint32_t, size_t>> last;  // draw and column of those in that bucket
  for (int64_t row = 0; row < rows; ++row) {
    std::fill(counts.begin(), counts.end(), 0);
    for (uint32_t& draw : draws) {
      draw = random->Next32();
      ++counts[draw >> shift];
    }
    size_t bucket = 0;
    int64_t below = 0;
    while (below + counts[bucket] < wanted) below += counts[bucket++];
    last.clear();
    const auto begin = selected.begin() + row * columns;
    for (size_t column = 0; column < draws.size(); ++column) {
      const size_t own = draws[column] >> shift;
      if (own == bucket) last.emplace_back(draws[column], column);
      begin[static_cast<ptrdiff_t>(column)] = own < bucket ? 1 : 0;
    }
    std::sort(last.begin(), last.end());
    for (size_t n = 0; n < static_cast<size_t>(wanted - below); ++n) {
      begin[static_cast<ptrdiff_t>(last[n].second)] = 1;
    }
  }
  return selected;
}

// Before edges are made: a block a token of a long sequence would not fit in memory.
absl::Status CheckBlocks(const MaskContext& context, int64_t block) {
  const int64_t rows = (context.q_tokens + block - 1) / block;
  const int64_t columns = (context.k_tokens + block - 1) / block;
  if (rows == 0 || columns == 0 || rows <= kMostBlocks / columns / context.kv_heads) {
    return absl::OkStatus();
  }
  const double bytes = static_cast<double>(rows) * static_cast<double>(columns) *
                       static_cast<double>(context.kv_heads);
  constexpr double kGigabyte = 1 << 30;
  return absl::InvalidArgumentError(fmt::format(
      "{} x {} blocks for each of {} kv heads take {:.1f} GiB of memory, more than {:.1f} "
      "GiB; use larger blocks",
      rows, columns, context.kv_heads, bytes / kGigabyte,
      static_cast<double>(kMostBlocks) / kGigabyte));
}

absl::StatusOr<Mask> MakeMaps(const MaskContext& context, const std::vector<int64_t>& row_edges,
                              const std::vector<int64_t>& column_edges, double keep) {
  const Band all{0, context.q_tokens, 0, context.k_tokens, {}, {}};
  const auto rows = static_cast<int64_t>(row_edges.size()) - 1;
  const auto columns = static_cast<int64_t>(column_edges.size()) - 1;
  std::vector<HeadGroup> groups;
  for (int64_t head = 0; head < context.kv_heads; ++head) {
    HeadGroup group;
    if (rows > 0 && columns > 0) {
      PhiloxStream random = DrawStream(context.seed, DrawPurpose::kBlockScores, context.draw, head);
      group.bands = {all};
      group.block_map = BlockMap{row_edges, column_edges, Select(rows, columns, keep, &random)};
    }
    groups.push_back(std::move(group));
  }
  return Mask::Create(context.q_tokens, context.k_tokens, std::move(groups));
}

absl::StatusOr<Mask> MakeUniform(const MaskContext& context, const Options& options) {
  const int64_t block = GetInteger(options, "block");
  if (absl::Status status = CheckBlocks(context, block); !status.ok()) return status;
  return MakeMaps(context, UniformEdges(context.q_tokens, block),
                  UniformEdges(context.k_tokens, block), GetReal(options, "keep"));
}

absl::StatusOr<Mask> MakeVariable(const MaskContext& context, const Options& options) {
  const int64_t average = GetInteger(options, "average_block");
  const int64_t least = GetInteger(options, "min_block");
  if (least > average) {
    return absl::InvalidArgumentError(
        fmt::format("'min_block' is {}, more than 'average_block', which is {}", least, average));
  }
  if (absl::Status status = CheckBlocks(context, average); !status.ok()) return status;
  PhiloxStream random = DrawStream(context.seed, DrawPurpose::kBlockEdges, context.draw);
  const std::vector<int64_t> rows = RandomEdges(context.q_tokens, average, least, &random);
  const std::vector<int64_t> columns = RandomEdges(context.k_tokens, average, least, &random);
  return MakeMaps(context, rows, columns, GetReal(options, "keep"));
}

Parameter Size(std::string name, int64_t default_value, std::string description) {
  return {std::move(name),
          ParameterKind::kInteger,
          Value{default_value},
          std::move(description),
          1,
          kMostTokens,
          {}};
}

Parameter Keep() {
  return {"keep",
          ParameterKind::kReal,
          Value{0.2},
          "share of the key blocks that a query block "
          "keeps, rounded to the nearest number of blocks, at least one",
          kLeastKept,
          1,
          {}};
}

}  // namespace

std::vector<MaskType> BlockSparseMaskTypes() {
  return {
      {"block_sparse_uniform",
       "blocks of one size; each query block keeps a random choice of key blocks, each kv head its "
       "own",
       {Size("block", 128, "tokens of a block, of queries as of keys"), Keep()},
       true,
       MakeUniform},
      {"block_sparse_variable",
       "the same over blocks of random size, alike for all kv heads",
       {Size("average_block", 512, "tokens of a block on average"),
        Size("min_block", 128, "tokens of the smallest block that may be drawn"), Keep()},
       true,
       MakeVariable},
  };
}

}  // namespace lcab
