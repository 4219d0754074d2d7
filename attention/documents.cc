// Draws lengths until the sequence is full.

#include "attention/documents.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "attention/draws.h"
#include "fmt/format.h"

namespace lcab {
namespace {

// Picks lengths from a histogram. Weights become integers, so that every machine picks alike.
class HistogramSampler {
 public:
  explicit HistogramSampler(std::span<const LengthBin> bins) : bins_(bins) {
    double total = 0;
    for (const LengthBin& bin : bins) total += bin.weight;
    uint64_t sum = 0;
    for (const LengthBin& bin : bins) {
      const double share = bin.weight / total * 0x1p40;
      sum += std::max<uint64_t>(1, static_cast<uint64_t>(share));
      cumulative_.push_back(sum);
    }
  }

  int64_t Draw(PhiloxStream* random) const {
    const uint64_t at = random->Below(cumulative_.back());
    const auto bin = static_cast<size_t>(
        std::upper_bound(cumulative_.begin(), cumulative_.end(), at) - cumulative_.begin());
    const auto width = static_cast<uint64_t>(bins_[bin].end - bins_[bin].begin);
    return bins_[bin].begin + static_cast<int64_t>(random->Below(width));
  }

 private:
  std::span<const LengthBin> bins_;
  std::vector<uint64_t> cumulative_;  // weights up to and with each bin, out of about 2^40
};

// Appends lengths by draw() until they add up to `tokens`.
template <typename Draw>
absl::Status Fill(int64_t tokens, int64_t cap, Draw&& draw, std::vector<int64_t>* lengths) {
  while (tokens > 0) {
    if (static_cast<int64_t>(lengths->size()) == kMaxDocuments) {
      return absl::InvalidArgumentError(
          fmt::format("more than {} documents, the most that a sequence may have; use longer ones "
                      "or fewer tokens",
                      kMaxDocuments));
    }
    int64_t length = std::min(std::max<int64_t>(draw(), 1), tokens);
    if (cap > 0) length = std::min(length, cap);
    lengths->push_back(length);
    tokens -= length;
  }
  return absl::OkStatus();
}

absl::Status Check(int64_t tokens, const DocumentOptions& options, int64_t draw) {
  if (tokens < 0 || tokens > kMaxDocumentTokens || options.cap < 0) {
    return absl::InvalidArgumentError(
        fmt::format("documents of {} tokens with cap {}: tokens must be in 0..{}, the cap not "
                    "below 0",
                    tokens, options.cap, kMaxDocumentTokens));
  }
  if (draw < 0 || draw > INT64_C(0xFFFFFFFF)) {
    return absl::InvalidArgumentError(fmt::format("draw {} must be in 0..2^32 - 1", draw));
  }
  if (!(options.uniform_share >= 0 && options.uniform_share <= 1)) {
    return absl::InvalidArgumentError(fmt::format(
        "the share of uniform documents is {}; it must be in 0..1", options.uniform_share));
  }
  if (options.uniform_min < 1 || options.uniform_max < options.uniform_min ||
      options.uniform_max > kMaxDocumentTokens) {
    return absl::InvalidArgumentError(
        fmt::format("uniform documents of {}..{} tokens: the range must ascend, from 1 on",
                    options.uniform_min, options.uniform_max));
  }
  // A histogram that nothing is drawn from need not be there.
  return options.uniform_share == 1 ? absl::OkStatus() : Validate(options.histogram);
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> DrawDocuments(int64_t tokens, const DocumentOptions& options,
                                                   uint64_t seed, int64_t draw) {
  if (absl::Status status = Check(tokens, options, draw); !status.ok()) return status;
  PhiloxStream random = DrawStream(seed, DrawPurpose::kDocuments, draw);
  std::vector<int64_t> lengths;
  const auto uniform_tokens =
      static_cast<int64_t>(std::floor(options.uniform_share * static_cast<double>(tokens) + 0.5));
  const auto span = static_cast<uint64_t>(options.uniform_max - options.uniform_min + 1);
  absl::Status status = Fill(
      uniform_tokens, options.cap,
      [&] { return options.uniform_min + static_cast<int64_t>(random.Below(span)); }, &lengths);
  if (status.ok() && uniform_tokens < tokens) {
    const HistogramSampler sampler(options.histogram);
    status = Fill(
        tokens - uniform_tokens, options.cap, [&] { return sampler.Draw(&random); }, &lengths);
  }
  if (!status.ok()) return status;
  if (uniform_tokens > 0) {
    for (size_t i = lengths.size(); i > 1; --i) {
      std::swap(lengths[i - 1], lengths[random.Below(i)]);
    }
  }
  return lengths;
}

}  // namespace lcab
