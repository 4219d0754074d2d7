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
  // Row i holds tokens[i]. Tokens must be distinct.
  static absl::StatusOr<TokenSet> FromIndices(std::span<const int64_t> tokens);
  // Pieces in any order; rows must not overlap and tokens must be distinct. `rows` >= the last
  // row used + 1; rows in no piece hold no token. Neighbouring pieces that continue each other are
  // merged; what results is sorted by local row.
  static absl::StatusOr<TokenSet> FromPieces(std::vector<TokenPiece> pieces, int64_t rows);

  int64_t rows() const { return rows_; }    // local rows, padding included
  int64_t count() const { return count_; }  // tokens held
  bool empty() const { return count_ == 0; }
  std::span<const TokenPiece> pieces() const { return pieces_; }  // ascending local rows

  std::optional<int64_t> TokenAt(int64_t local_row) const;
  std::optional<int64_t> RowOf(int64_t token) const;

  // Rows [begin, end) as a set of their own, renumbered from 0.
  TokenSet Rows(Interval rows) const;
  // The rows of `other` behind those of this one.
  TokenSet Concatenate(const TokenSet& other) const;
  // Sorted, disjoint intervals of the tokens held (a stride of 1 gives one a piece).
  std::vector<Interval> Intervals() const;

  friend bool operator==(const TokenSet&, const TokenSet&) = default;

 private:
  std::vector<TokenPiece> pieces_;
  int64_t rows_ = 0;
  int64_t count_ = 0;
};

}  // namespace lcab

#endif  // LCAB_ATTENTION_TOKENS_H_
