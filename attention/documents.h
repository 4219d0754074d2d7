// Lengths of the documents that are packed into one sequence: drawn from a histogram, given, or
// mixed. All draws use Philox and integer arithmetic, so they are the same everywhere.

#ifndef LCAB_ATTENTION_DOCUMENTS_H_
#define LCAB_ATTENTION_DOCUMENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lcab {

// A histogram bin: lengths [begin, end) with a weight relative to the others.
struct LengthBin {
  int64_t begin = 0;
  int64_t end = 0;
  double weight = 0;
};

// The built-in distributions: "pile", "prolong64k", "prolong512k". NotFound names the nearest.
absl::StatusOr<std::span<const LengthBin>> LengthHistogram(std::string_view name);

// The text of a user's histogram: a JSON object {"[begin,end)": weight, ...}. InvalidArgument says
// which bin is malformed, overlaps or has no positive finite weight.
absl::StatusOr<std::vector<LengthBin>> ParseLengthHistogram(std::string_view json);

struct DocumentOptions {
  std::vector<LengthBin> histogram;
  int64_t cap = 0;           // no document is longer; 0: no cap
  double uniform_share = 0;  // of all tokens, in documents of U{uniform_min..uniform_max}; the
                             // rest by the histogram, then all shuffled (0.6 for the 40:60 mix)
  int64_t uniform_min = 8192;
  int64_t uniform_max = 30720;
};

// Lengths that add up to `tokens`: pick a bin by weight, an integer uniformly in it, truncate to
// what remains (minimum 1), repeat.
absl::StatusOr<std::vector<int64_t>> DrawDocuments(int64_t tokens, const DocumentOptions& options,
                                                   uint64_t seed, int64_t draw);

}  // namespace lcab

#endif  // LCAB_ATTENTION_DOCUMENTS_H_
