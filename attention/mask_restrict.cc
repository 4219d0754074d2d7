// What a rank sees of a mask, in its local rows.
//
// Each piece of queries is cut against *stretches* of keys: pieces in consecutive rows whose tokens
// ascend. Of a stretch, a band gives a piece of queries one contiguous part whole; only the few
// pieces that its slanted ends cross are cut one by one. So 800 pieces against 800 cost about 800
// rectangles, not 640,000; the canonical form then joins what belongs together.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "attention/band_tree.h"
#include "attention/mask.h"
#include "attention/mask_group.h"

namespace lcab {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// The first n of the piece's progression with token >= `token`, from 0 to count.
int64_t IndexAtOrAfter(const TokenPiece& piece, int64_t token) {
  return std::clamp<int64_t>(CeilDiv(token - piece.first, piece.stride), 0, piece.count);
}

int64_t LastToken(const TokenPiece& piece) {
  return piece.first + (piece.count - 1) * piece.stride;
}

// The part of `piece` whose tokens are in [begin, end); its count may be 0.
TokenPiece PartOf(const TokenPiece& piece, int64_t begin, int64_t end) {
  const int64_t from = IndexAtOrAfter(piece, begin);
  const int64_t to = std::max(from, IndexAtOrAfter(piece, end));
  return {piece.first + from * piece.stride, piece.stride, to - from, piece.local_row + from};
}

// Key pieces in consecutive local rows whose tokens ascend.
using Stretch = std::span<const TokenPiece>;

std::vector<Stretch> Stretches(std::span<const TokenPiece> pieces) {
  std::vector<Stretch> stretches;
  size_t begin = 0;
  for (size_t i = 1; i <= pieces.size(); ++i) {
    if (i < pieces.size()) {
      const TokenPiece& last = pieces[i - 1];
      if (pieces[i].local_row == last.local_row + last.count && pieces[i].first > LastToken(last)) {
        continue;
      }
    }
    stretches.push_back(pieces.subspan(begin, i - begin));
    begin = i;
  }
  return stretches;
}

// The first piece of the stretch that holds a token >= `token`.
Stretch::iterator PieceAtOrAfter(Stretch stretch, int64_t token) {
  return std::partition_point(stretch.begin(), stretch.end(), [token](const TokenPiece& piece) {
    return LastToken(piece) < token;
  });
}

// The first local row of the stretch with a token >= `token`.
int64_t RowAtOrAfter(Stretch stretch, int64_t token) {
  const auto piece = PieceAtOrAfter(stretch, token);
  if (piece == stretch.end()) return stretch.back().local_row + stretch.back().count;
  return piece->local_row + IndexAtOrAfter(*piece, token);
}

// Cuts one band, in tokens, to queries and keys, and appends what is left, in local rows.
class Cutter {
 public:
  explicit Cutter(std::vector<Band>* out) : out_(out) {}

  void Cut(const Band& whole, const TokenPiece& queries, Stretch stretch) {
    const Band band = Clip(whole, {queries.first, LastToken(queries) + 1},
                           {stretch.front().first, LastToken(stretch.back()) + 1});
    const TokenPiece q = PartOf(queries, band.q0, band.q1);
    if (q.count == 0) return;
    // Keys below `all_from` are cut by the lower bound for some of the rows, those from `all_to` on
    // by the upper one; between, every row has all.
    const int64_t all_from = band.lower ? std::max(band.k0, LastToken(q) + *band.lower) : band.k0;
    const int64_t all_to = band.upper ? std::min(band.k1, q.first + *band.upper) : band.k1;
    if (all_from < all_to) {
      CutPieces(band, q, stretch, {band.k0, all_from});
      Append({q.local_row,
              q.local_row + q.count,
              RowAtOrAfter(stretch, all_from),
              RowAtOrAfter(stretch, all_to),
              {},
              {}});
      CutPieces(band, q, stretch, {all_to, band.k1});
    } else {
      CutPieces(band, q, stretch, {band.k0, band.k1});
    }
  }

 private:
  void Append(const Band& band) {
    const Band trimmed = Trim(band);
    if (trimmed.q0 < trimmed.q1) out_->push_back(trimmed);
  }

  // The keys of the stretch with tokens in `tokens`, piece by piece.
  void CutPieces(const Band& band, const TokenPiece& q, Stretch stretch, Interval tokens) {
    if (tokens.empty()) return;
    for (auto piece = PieceAtOrAfter(stretch, tokens.begin);
         piece != stretch.end() && piece->first < tokens.end; ++piece) {
      const TokenPiece k = PartOf(*piece, tokens.begin, tokens.end);
      if (k.count == 0) continue;
      // One token is a progression of any stride.
      if (q.stride == k.stride || q.count == 1 || k.count == 1) {
        CutAlike(band, q, k, k.count == 1 ? q.stride : k.stride);
      } else {
        CutRowByRow(band, q, k);
      }
    }
  }

  // q.first + n * stride against k.first + m * stride: a bound on the difference of tokens is one
  // on m - n.
  void CutAlike(const Band& band, const TokenPiece& q, const TokenPiece& k, int64_t stride) {
    Band local{q.local_row, q.local_row + q.count, k.local_row, k.local_row + k.count, {}, {}};
    const int64_t shift = k.local_row - q.local_row;
    if (band.lower) local.lower = CeilDiv(q.first + *band.lower - k.first, stride) + shift;
    if (band.upper) local.upper = CeilDiv(q.first + *band.upper - k.first, stride) + shift;
    Append(local);
  }

  // Strides that differ: the slope is no longer one. Rows with the same keys share a band.
  void CutRowByRow(const Band& band, const TokenPiece& q, const TokenPiece& k) {
    Band same{};
    for (int64_t n = 0; n < q.count; ++n) {
      const Interval keys = KeysOf(band, q.first + n * q.stride);
      const TokenPiece part = PartOf(k, keys.begin, keys.end);
      const int64_t row = q.local_row + n;
      if (same.q1 == row && same.k0 == part.local_row && same.k1 == part.local_row + part.count) {
        ++same.q1;
        continue;
      }
      Append(same);
      same = {row, row + 1, part.local_row, part.local_row + part.count, {}, {}};
    }
    Append(same);
  }

  std::vector<Band>* out_;
};

}  // namespace

Mask Mask::Restrict(const TokenSet& q, const TokenSet& k, Interval kv_heads) const {
  const Interval wanted = groups() == 1 ? Interval{0, 1}
                                        : Interval{std::max<int64_t>(kv_heads.begin, 0),
                                                   std::min(kv_heads.end, groups())};
  const std::vector<Stretch> stretches = Stretches(k.pieces());
  std::vector<std::shared_ptr<const Group>> made;
  for (int64_t g = wanted.begin; g < wanted.end; ++g) {
    std::vector<Band> local;
    Cutter cutter(&local);
    for (const TokenPiece& queries : q.pieces()) {
      const Interval rows{queries.first, LastToken(queries) + 1};
      for (const Stretch stretch : stretches) {
        const Interval keys{stretch.front().first, LastToken(stretch.back()) + 1};
        group(g).tree.ForEachTouching(
            rows, keys, [&](const Band& band) { cutter.Cut(band, queries, stretch); });
      }
    }
    // Rows and keys hold distinct tokens or none, so the parts of disjoint bands are disjoint.
    std::vector<Band> bands = Canonical(std::move(local)).value();
    std::optional<BlockMap> map;
    if (group(g).block_map && !bands.empty()) map = lcab::Restrict(*group(g).block_map, q, k);
    made.push_back(MakeGroup(std::move(bands), std::move(map)));
  }
  if (made.empty()) made.push_back(MakeGroup({}, std::nullopt));
  return Mask(q.rows(), k.rows(), std::move(made));
}

}  // namespace lcab
