// Elements and rows of inputs. A row is made in batches of counters, side by side, which is what
// the compiler needs to use vector instructions.

#include "attention/inputs.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "attention/input_values.h"

namespace lcab {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"normal", "heavy_tailed", "large_rows",
                                                    "correlated"};

// dLSE has one channel a row, and is as it is whatever the distribution of the others.
bool Shaped(Tensor tensor, Distribution distribution, Distribution shape) {
  return distribution == shape && tensor != Tensor::kDLse;
}

float NormalElement(const InputSource& source, Tensor tensor, int64_t token, int64_t head,
                    int64_t channel) {
  const int64_t elements = ElementsPerBlock(source.dtype);
  return NormalFromWords(
      source.dtype, InputWords(source, InputBits::kValues, tensor, token, head, channel / elements),
      channel % elements);
}

constexpr int64_t kBatch = 8;  // blocks of random words

// Channels [first, end) of a row, near N(0, 1); `first` begins a block.
void NormalChannels(const InputSource& source, Tensor tensor, int64_t token, int64_t head,
                    int64_t first, int64_t end, float* out) {
  const int64_t elements = ElementsPerBlock(source.dtype);
  std::array<PhiloxBlock, kBatch> words;
  while (first < end) {
    for (int64_t n = 0; n < kBatch; ++n) {
      words[static_cast<size_t>(n)] =
          InputWords(source, InputBits::kValues, tensor, token, head, first / elements + n);
    }
    const int64_t count = std::min(end - first, kBatch * elements);
    for (int64_t n = 0; n < count; ++n) {
      out[n] =
          NormalFromWords(source.dtype, words[static_cast<size_t>(n / elements)], n % elements);
    }
    out += count;
    first += count;
  }
}

float RowFactor(const InputSource& source, Tensor tensor, int64_t token, int64_t head) {
  if (!Shaped(tensor, source.distribution, Distribution::kLargeRows)) return 1;
  return LargeRowFactor(
      InputWords(source, InputBits::kLargeRow, tensor, token / kLargeRowGroup, head, 0), token);
}

PhiloxBlock HeavyWords(const InputSource& source, Tensor tensor, int64_t head, int64_t channel) {
  return InputWords(source, InputBits::kHeavyChannel, tensor, 0, head,
                    channel / kHeavyChannelGroup);
}

}  // namespace

std::string_view Name(Distribution distribution) {
  return kNames[static_cast<size_t>(distribution)];
}

std::optional<Distribution> ParseDistribution(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Distribution>(i);
  }
  return std::nullopt;
}

float InputElement(const InputSource& source, Tensor tensor, int64_t token, int64_t head,
                   int64_t channel) {
  const float normal = NormalElement(source, tensor, token, head, channel);
  if (tensor == Tensor::kK && source.distribution == Distribution::kCorrelated) {
    const float q = NormalElement(source, Tensor::kQ, token, head * source.heads_per_kv, channel);
    return Correlated(source.dtype, q, normal);
  }
  if (Shaped(tensor, source.distribution, Distribution::kHeavyTailed)) {
    return normal * HeavyChannelFactor(HeavyWords(source, tensor, head, channel), channel);
  }
  return normal * RowFactor(source, tensor, token, head);
}

void InputRow(const InputSource& source, Tensor tensor, int64_t token, int64_t head, int64_t dim,
              float* out) {
  NormalChannels(source, tensor, token, head, 0, dim, out);
  if (tensor == Tensor::kK && source.distribution == Distribution::kCorrelated) {
    std::array<float, kBatch * 4> q;
    for (int64_t first = 0; first < dim; first += static_cast<int64_t>(q.size())) {
      const int64_t end = std::min(dim, first + static_cast<int64_t>(q.size()));
      NormalChannels(source, Tensor::kQ, token, head * source.heads_per_kv, first, end, q.data());
      for (int64_t channel = first; channel < end; ++channel) {
        out[channel] =
            Correlated(source.dtype, q[static_cast<size_t>(channel - first)], out[channel]);
      }
    }
  } else if (Shaped(tensor, source.distribution, Distribution::kHeavyTailed)) {
    for (int64_t first = 0; first < dim; first += kHeavyChannelGroup) {
      const PhiloxBlock words = HeavyWords(source, tensor, head, first);
      const int64_t end = std::min(dim, first + kHeavyChannelGroup);
      for (int64_t channel = first; channel < end; ++channel) {
        out[channel] *= HeavyChannelFactor(words, channel);
      }
    }
  } else {
    const float factor = RowFactor(source, tensor, token, head);
    for (int64_t channel = 0; channel < dim; ++channel) out[channel] *= factor;
  }
}

}  // namespace lcab
