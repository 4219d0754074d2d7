// Lengths of the documents that are packed into one sequence: drawn from a histogram, given, or
// mixed. All draws use Philox and integer arithmetic, so they are the same everywhere.

#ifndef LCAB_ATTENTION_DOCUMENTS_H_
#define LCAB_ATTENTION_DOCUMENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lcab {

// No document is longer, nor is any sequence.
inline constexpr int64_t kMaxDocumentTokens = int64_t{1} << 31;

// Nor has any sequence more of them: beyond this a mask would need gigabytes.
inline constexpr int64_t kMaxDocuments = int64_t{1} << 22;

// A histogram bin: lengths [begin, end) with a weight relative to the others.
struct LengthBin {
  int64_t begin = 0;
  int64_t end = 0;
  double weight = 0;
};

// The built-in distributions: "pile", "prolong64k", "prolong512k".
std::vector<std::string> LengthHistogramNames();
// NotFound names the nearest.
absl::StatusOr<std::span<const LengthBin>> LengthHistogram(std::string_view name);

// InvalidArgument says which bin is empty, overlaps another or has no positive finite weight.
absl::Status Validate(std::span<const LengthBin> histogram);

// The text of a user's histogram: a JSON object {"[begin,end)": weight, ...}. InvalidArgument says
// which bin is malformed or there twice, in which line the text is no JSON, and what Validate()
// says.
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
// the cap and to what remains (minimum 1), repeat. InvalidArgument: what Validate() says of the
// histogram; a negative count, draw or cap; a share outside 0..1; a uniform range that is empty.
absl::StatusOr<std::vector<int64_t>> DrawDocuments(int64_t tokens, const DocumentOptions& options,
                                                   uint64_t seed, int64_t draw);

}  // namespace lcab

#endif  // LCAB_ATTENTION_DOCUMENTS_H_
