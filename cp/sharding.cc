#include "cp/sharding.h"

#include <algorithm>
#include <utility>

namespace lcab::cp {

std::vector<TokenSet> ShardContiguous(int64_t tokens, int ranks) {
  std::vector<TokenSet> shards;
  int64_t begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t count = tokens / ranks + (rank < tokens % ranks ? 1 : 0);
    shards.push_back(TokenSet::Range(begin, begin + count));
    begin += count;
  }
  return shards;
}

std::vector<TokenSet> ShardZigzag(std::span<const int64_t> lengths, int ranks) {
  std::vector<std::vector<TokenPiece>> pieces(static_cast<size_t>(ranks));
  std::vector<int64_t> rows(static_cast<size_t>(ranks), 0);
  const auto own = [&](int rank, int64_t first, int64_t count) {
    if (count == 0) return;
    auto& mine = pieces[static_cast<size_t>(rank)];
    int64_t& used = rows[static_cast<size_t>(rank)];
    mine.push_back({.first = first, .stride = 1, .count = count, .local_row = used});
    used += count;
  };

  // Taking turns keeps every rank within one token of every other after each document: those
  // behind are the ones from `turn` on.
  int turn = 0;
  int64_t begin = 0;
  std::vector<int64_t> count(static_cast<size_t>(ranks));
  for (const int64_t length : lengths) {
    const int left_over = static_cast<int>(length % ranks);
    std::fill(count.begin(), count.end(), length / ranks);
    for (int i = 0; i < left_over; ++i) ++count[static_cast<size_t>((turn + i) % ranks)];
    turn = (turn + left_over) % ranks;

    int64_t token = begin;
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t early = (count[static_cast<size_t>(rank)] + 1) / 2;
      own(rank, token, early);
      token += early;
    }
    for (int rank = ranks - 1; rank >= 0; --rank) {
      const int64_t late = count[static_cast<size_t>(rank)] / 2;
      own(rank, token, late);
      token += late;
    }
    begin += length;
  }

  std::vector<TokenSet> shards;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    // Rows and tokens are distinct by construction.
    shards.push_back(TokenSet::FromPieces(std::move(pieces[r]), rows[r]).value());
  }
  return shards;
}

Documents FindDocuments(const Mask& mask) {
  // A document in the making: the hulls of the bands that reach each other.
  struct Block {
    Interval q, k;
  };
  std::vector<Block> bands;
  for (int64_t group = 0; group < mask.groups(); ++group) {
    for (const Band& band : mask.bands(group)) {
      // Neighbouring rows of a band share a key, unless it is a bare diagonal: then each row is on
      // its own.
      const bool diagonal = band.lower && band.upper && *band.upper == *band.lower + 1;
      if (!diagonal) bands.push_back({{band.q0, band.q1}, {band.k0, band.k1}});
      for (int64_t row = band.q0; diagonal && row < band.q1; ++row) {
        const Interval key = KeysOf(band, row);
        if (!key.empty()) bands.push_back({{row, row + 1}, key});
      }
    }
  }
  std::sort(bands.begin(), bands.end(), [](const Block& a, const Block& b) {
    return std::pair(a.q.begin, a.k.begin) < std::pair(b.q.begin, b.k.begin);
  });
  // A cut must have both its queries and its keys on one side, so blocks on the stack ascend in
  // both; one that overlaps or precedes an earlier block in either swallows it.
  std::vector<Block> blocks;
  for (Block next : bands) {
    while (!blocks.empty() &&
           (next.q.begin < blocks.back().q.end || next.k.begin < blocks.back().k.end)) {
      const Block& last = blocks.back();
      next.q = {std::min(next.q.begin, last.q.begin), std::max(next.q.end, last.q.end)};
      next.k = {std::min(next.k.begin, last.k.begin), std::max(next.k.end, last.k.end)};
      blocks.pop_back();
    }
    blocks.push_back(next);
  }

  Documents documents;
  int64_t q = 0, k = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool last = i + 1 == blocks.size();
    const int64_t q_end = last ? mask.q_tokens() : blocks[i + 1].q.begin;
    const int64_t k_end = last ? mask.k_tokens() : blocks[i + 1].k.begin;
    documents.q_lengths.push_back(q_end - q);
    documents.k_lengths.push_back(k_end - k);
    q = q_end;
    k = k_end;
  }
  if (blocks.empty()) return {{mask.q_tokens()}, {mask.k_tokens()}};
  return documents;
}

}  // namespace lcab::cp
