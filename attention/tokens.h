// Which tokens a tensor's rows hold: who owns what when a sequence is shared among ranks.
//
//   TokenSet all = TokenSet::Range(0, 1024);                  // row i holds token i
//   TokenSet odd = TokenSet::Strided(/*first=*/1, /*stride=*/2, /*count=*/512);
//
// A TokenSet is an immutable value. Rows that hold no token (padding) are allowed.

#ifndef LCAB_ATTENTION_TOKENS_H_
#define LCAB_ATTENTION_TOKENS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lcab {

// A half-open range [begin, end).
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  constexpr int64_t size() const { return end > begin ? end - begin : 0; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool Contains(int64_t x) const { return begin <= x && x < end; }
  friend constexpr bool operator==(const Interval&, const Interval&) = default;
};

// Local row local_row + n holds token first + n * stride, for n in [0, count).
struct TokenPiece {
  int64_t first = 0;
  int64_t stride = 1;  // >= 1
  int64_t count = 0;
  int64_t local_row = 0;

  friend constexpr bool operator==(const TokenPiece&, const TokenPiece&) = default;
};

class TokenSet {
 public:
  TokenSet() = default;  // no rows

  static TokenSet Range(int64_t begin, int64_t end);
  static TokenSet Strided(int64_t first, int64_t stride, int64_t count);
  // Row i holds tokens[i]. InvalidArgument: a negative token, or one that is there twice.
  static absl::StatusOr<TokenSet> FromIndices(std::span<const int64_t> tokens);
  // Pieces in any order; rows must not overlap and tokens must be distinct. `rows` >= the last
  // row used + 1; rows in no piece hold no token. What results depends only on which row holds
  // which token: pieces that continue each other are merged, and pieces that are not worth being
  // one (two tokens apart) are split. InvalidArgument names the pieces that do not fit.
  static absl::StatusOr<TokenSet> FromPieces(std::vector<TokenPiece> pieces, int64_t rows);

  int64_t rows() const { return rows_; }    // local rows, padding included
  int64_t count() const { return count_; }  // tokens held
  bool empty() const { return count_ == 0; }
  std::span<const TokenPiece> pieces() const { return pieces_; }  // ascending local rows

  // Nothing where the row holds no token, or is not there.
  std::optional<int64_t> TokenAt(int64_t local_row) const;
  // Nothing where no row holds the token.
  std::optional<int64_t> RowOf(int64_t token) const;

  // Rows [begin, end) as a set of their own, renumbered from 0. Rows that are not there hold no
  // token.
  TokenSet Rows(Interval rows) const;
  // The rows of `other` behind those of this one. The two should share no token: RowOf() finds
  // one of the rows.
  TokenSet Concatenate(const TokenSet& other) const;
  // Sorted, disjoint intervals of the tokens held (a stride of 1 gives one a piece).
  std::vector<Interval> Intervals() const;

  // Whether the same rows hold the same tokens.
  friend bool operator==(const TokenSet&, const TokenSet&) = default;

 private:
  // `pieces` ascend by local row and hold distinct tokens.
  TokenSet(const std::vector<TokenPiece>& pieces, int64_t rows);

  std::vector<TokenPiece> pieces_;
  int64_t rows_ = 0;
  int64_t count_ = 0;
  // For RowOf(): pieces by first token, and the last token of each and of those before it.
  std::vector<int32_t> by_token_;
  std::vector<int64_t> reach_;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_TOKENS_H_
