#include "cp/executors/watched_reads.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace lcab::cp {
namespace {

uint64_t Mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15ULL;
  return state ^ (state >> 29);
}

uint64_t DigestOf(const std::byte* data, int64_t bytes, uint64_t state) {
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    state = Mix(state, word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, data, static_cast<size_t>(bytes));
  return Mix(state, rest);
}

}  // namespace

uint64_t DigestOf(const TensorView& view, Workers& workers) {
  constexpr int64_t kElementsPerPart = int64_t{64} * 1024;
  const int64_t block =
      std::max<int64_t>(1, kElementsPerPart / std::max<int64_t>(1, view.heads * view.dim));
  const int64_t parts = (view.tokens + block - 1) / block;
  std::vector<uint64_t> digests(static_cast<size_t>(parts));
  workers.Run(parts, [&](int64_t part, int) {
    auto digest = static_cast<uint64_t>(part);
    const int64_t end = std::min(view.tokens, (part + 1) * block);
    for (int64_t token = part * block; token < end; ++token) {
      for (int64_t head = 0; head < view.heads; ++head) {
        digest = DigestOf(view.At(token, head), view.dim * SizeOf(view.dtype), digest);
      }
    }
    digests[static_cast<size_t>(part)] = digest;
  });
  return std::accumulate(digests.begin(), digests.end(), uint64_t{0}, Mix);
}

absl::Status WatchedReads::Before(DeviceSteps& steps, absl::Time deadline, Stream& stream) {
  digests_.clear();
  for (const auto& [name, view] : reads_) {
    const absl::StatusOr<uint64_t> digest = steps.Digest(view, deadline, stream);
    if (!digest.ok()) return digest.status();
    digests_.push_back(*digest);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string_view>> WatchedReads::Changed(DeviceSteps& steps,
                                                                    absl::Time deadline,
                                                                    Stream& stream) const {
  std::vector<std::string_view> changed;
  for (size_t n = 0; n < digests_.size(); ++n) {
    const absl::StatusOr<uint64_t> digest = steps.Digest(reads_[n].second, deadline, stream);
    if (!digest.ok()) return digest.status();
    if (*digest != digests_[n]) changed.push_back(reads_[n].first);
  }
  return changed;
}

}  // namespace lcab::cp
