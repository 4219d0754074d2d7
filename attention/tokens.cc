// Pieces are kept in one form for each set, whatever they were built from; see Merge().

#include "attention/tokens.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "fmt/format.h"

namespace lcab {
namespace {

int64_t LastToken(const TokenPiece& piece) {
  return piece.first + (piece.count - 1) * piece.stride;
}
int64_t EndRow(const TokenPiece& piece) { return piece.local_row + piece.count; }

std::string Text(const TokenPiece& piece) {
  return fmt::format("{{first {}, stride {}, count {}, local_row {}}}", piece.first, piece.stride,
                     piece.count, piece.local_row);
}

// Reads a list of pieces as one sequence of (row, token).
class Cursor {
 public:
  explicit Cursor(std::span<const TokenPiece> pieces) : pieces_(pieces) { SkipEmpty(); }

  bool done() const { return index_ == pieces_.size(); }
  int64_t row() const { return pieces_[index_].local_row + offset_; }
  int64_t token() const { return pieces_[index_].first + offset_ * pieces_[index_].stride; }

  // How many tokens from here on lie in consecutive rows, `stride` apart.
  int64_t RunLength(int64_t stride) const {
    Cursor at = *this;
    int64_t length = 1;
    int64_t next_row = row() + 1;
    int64_t next_token = token() + stride;
    at.Advance(1);
    while (!at.done() && at.row() == next_row && at.token() == next_token) {
      const TokenPiece& piece = at.pieces_[at.index_];
      const int64_t taken = piece.stride == stride ? piece.count - at.offset_ : 1;
      length += taken;
      next_row += taken;
      next_token += taken * stride;
      at.Advance(taken);
    }
    return length;
  }

  // The distance to the token in the next row, where there is one.
  std::optional<int64_t> Step() const {
    Cursor next = *this;
    next.Advance(1);
    if (next.done() || next.row() != row() + 1) return std::nullopt;
    return next.token() - token();
  }

  void Advance(int64_t tokens) {
    while (tokens > 0) {
      const int64_t taken = std::min(tokens, pieces_[index_].count - offset_);
      offset_ += taken;
      tokens -= taken;
      if (offset_ == pieces_[index_].count) {
        ++index_;
        offset_ = 0;
        SkipEmpty();
      }
    }
  }

 private:
  void SkipEmpty() {
    while (index_ < pieces_.size() && pieces_[index_].count == 0) ++index_;
  }

  std::span<const TokenPiece> pieces_;
  size_t index_ = 0;
  int64_t offset_ = 0;
};

// From the first row on, takes the longest run of consecutive tokens, else the longest progression
// of three or more, else one token. The result is a function of the sequence alone.
std::vector<TokenPiece> Merge(std::span<const TokenPiece> ascending) {
  std::vector<TokenPiece> merged;
  for (Cursor at(ascending); !at.done();) {
    TokenPiece piece{at.token(), 1, 1, at.row()};
    const std::optional<int64_t> step = at.Step();
    if (step.has_value() && *step >= 1) {
      const int64_t length = at.RunLength(*step);
      if (*step == 1 || length >= 3) {
        piece.stride = *step;
        piece.count = length;
      }
    }
    at.Advance(piece.count);
    merged.push_back(piece);
  }
  return merged;
}

// Whether two progressions share a token (the Chinese remainder theorem).
std::optional<int64_t> SharedToken(const TokenPiece& a, const TokenPiece& b) {
  const int64_t low = std::max(a.first, b.first);
  const int64_t high = std::min(LastToken(a), LastToken(b));
  if (low > high) return std::nullopt;
  // a.first + x * a.stride = b.first + y * b.stride: solve modulo b.stride for x.
  const int64_t divisor = std::gcd(a.stride, b.stride);
  if ((b.first - a.first) % divisor != 0) return std::nullopt;
  const int64_t modulus = b.stride / divisor;
  // The inverse of a.stride / divisor modulo `modulus`, by the extended Euclidean algorithm.
  int64_t previous = a.stride / divisor % modulus, current = modulus;
  int64_t inverse = 1, next_inverse = 0;
  while (current != 0) {
    const int64_t quotient = previous / current;
    previous = std::exchange(current, previous - quotient * current);
    inverse = std::exchange(next_inverse, inverse - quotient * next_inverse);
  }
  absl::int128 x = absl::int128((b.first - a.first) / divisor) % modulus * inverse % modulus;
  if (x < 0) x += modulus;
  absl::int128 token = a.first + x * a.stride;
  const absl::int128 period = absl::int128(a.stride) * modulus;
  if (token < low) token += (low - token + period - 1) / period * period;
  if (token > high) return std::nullopt;
  return static_cast<int64_t>(token);
}

// Refuses a token that is in two pieces. Only pieces whose ranges overlap are compared.
absl::Status CheckDistinct(std::vector<TokenPiece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const TokenPiece& a, const TokenPiece& b) { return a.first < b.first; });
  std::vector<const TokenPiece*> open;  // those that may reach the present one
  for (const TokenPiece& piece : pieces) {
    std::erase_if(open, [&](const TokenPiece* p) { return LastToken(*p) < piece.first; });
    for (const TokenPiece* other : open) {
      const std::optional<int64_t> token = SharedToken(*other, piece);
      if (token.has_value()) {
        return absl::InvalidArgumentError(
            fmt::format("token {} is in two pieces, {} and {}; each token may have one row", *token,
                        Text(*other), Text(piece)));
      }
    }
    open.push_back(&piece);
  }
  return absl::OkStatus();
}

}  // namespace

TokenSet::TokenSet(const std::vector<TokenPiece>& pieces, int64_t rows)
    : pieces_(Merge(pieces)), rows_(rows) {
  for (const TokenPiece& piece : pieces_) count_ += piece.count;
  by_token_.resize(pieces_.size());
  std::iota(by_token_.begin(), by_token_.end(), 0);
  std::sort(by_token_.begin(), by_token_.end(), [this](int32_t a, int32_t b) {
    return pieces_[static_cast<size_t>(a)].first < pieces_[static_cast<size_t>(b)].first;
  });
  int64_t reach = 0;
  for (const int32_t index : by_token_) {
    reach = std::max(reach, LastToken(pieces_[static_cast<size_t>(index)]));
    reach_.push_back(reach);
  }
}

TokenSet TokenSet::Range(int64_t begin, int64_t end) { return Strided(begin, 1, end - begin); }

TokenSet TokenSet::Strided(int64_t first, int64_t stride, int64_t count) {
  count = std::max<int64_t>(count, 0);
  return TokenSet({{first, stride, count, 0}}, count);
}

absl::StatusOr<TokenSet> TokenSet::FromIndices(std::span<const int64_t> tokens) {
  std::vector<TokenPiece> pieces;
  pieces.reserve(tokens.size());
  for (const int64_t token : tokens) {
    pieces.push_back({token, 1, 1, static_cast<int64_t>(pieces.size())});
  }
  return FromPieces(std::move(pieces), static_cast<int64_t>(tokens.size()));
}

absl::StatusOr<TokenSet> TokenSet::FromPieces(std::vector<TokenPiece> pieces, int64_t rows) {
  constexpr int64_t kLimit = int64_t{1} << 40;  // products of two stay far from overflow
  for (const TokenPiece& piece : pieces) {
    if (piece.first < 0 || piece.stride < 1 || piece.count < 0 || piece.local_row < 0 ||
        piece.first > kLimit || piece.stride > kLimit || piece.count > kLimit ||
        piece.local_row > kLimit ||
        (piece.count > 1 && piece.stride > (kLimit - piece.first) / (piece.count - 1))) {
      return absl::InvalidArgumentError(
          fmt::format("piece {} must have first, count and local_row >= 0, stride >= 1 and tokens "
                      "below 2^40",
                      Text(piece)));
    }
    if (EndRow(piece) > rows) {
      return absl::InvalidArgumentError(fmt::format(
          "piece {} ends at row {}, but the set has {} rows", Text(piece), EndRow(piece), rows));
    }
  }
  std::erase_if(pieces, [](const TokenPiece& piece) { return piece.count == 0; });
  std::sort(pieces.begin(), pieces.end(),
            [](const TokenPiece& a, const TokenPiece& b) { return a.local_row < b.local_row; });
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].local_row < EndRow(pieces[i - 1])) {
      return absl::InvalidArgumentError(
          fmt::format("row {} is in two pieces, {} and {}; each row may hold one token",
                      pieces[i].local_row, Text(pieces[i - 1]), Text(pieces[i])));
    }
  }
  TokenSet set(pieces, rows);
  if (absl::Status status = CheckDistinct(set.pieces_); !status.ok()) return status;
  return set;
}

std::optional<int64_t> TokenSet::TokenAt(int64_t local_row) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), local_row,
                       [](int64_t row, const TokenPiece& piece) { return row < piece.local_row; });
  if (after == pieces_.begin()) return std::nullopt;
  const TokenPiece& piece = *std::prev(after);
  if (local_row >= EndRow(piece)) return std::nullopt;
  return piece.first + (local_row - piece.local_row) * piece.stride;
}

std::optional<int64_t> TokenSet::RowOf(int64_t token) const {
  const auto after = std::upper_bound(by_token_.begin(), by_token_.end(), token,
                                      [this](int64_t value, int32_t index) {
                                        return value < pieces_[static_cast<size_t>(index)].first;
                                      });
  for (auto i = static_cast<size_t>(after - by_token_.begin()); i-- > 0 && reach_[i] >= token;) {
    const TokenPiece& piece = pieces_[static_cast<size_t>(by_token_[i])];
    if (token <= LastToken(piece) && (token - piece.first) % piece.stride == 0) {
      return piece.local_row + (token - piece.first) / piece.stride;
    }
  }
  return std::nullopt;
}

TokenSet TokenSet::Rows(Interval rows) const {
  std::vector<TokenPiece> cut;
  for (const TokenPiece& piece : pieces_) {
    const int64_t begin = std::max(rows.begin, piece.local_row);
    const int64_t end = std::min(rows.end, EndRow(piece));
    if (begin >= end) continue;
    cut.push_back({piece.first + (begin - piece.local_row) * piece.stride, piece.stride,
                   end - begin, begin - rows.begin});
  }
  return TokenSet(cut, rows.size());
}

TokenSet TokenSet::Concatenate(const TokenSet& other) const {
  std::vector<TokenPiece> pieces = pieces_;
  for (TokenPiece piece : other.pieces_) {
    piece.local_row += rows_;
    pieces.push_back(piece);
  }
  return TokenSet(pieces, rows_ + other.rows_);
}

std::vector<Interval> TokenSet::Intervals() const {
  std::vector<Interval> all;
  for (const TokenPiece& piece : pieces_) {
    if (piece.stride == 1) {
      all.push_back({piece.first, piece.first + piece.count});
      continue;
    }
    for (int64_t n = 0; n < piece.count; ++n) {
      const int64_t token = piece.first + n * piece.stride;
      all.push_back({token, token + 1});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval& interval : all) {
    if (!merged.empty() && interval.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, interval.end);
    } else {
      merged.push_back(interval);
    }
  }
  return merged;
}

}  // namespace lcab
