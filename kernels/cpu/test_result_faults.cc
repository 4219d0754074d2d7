// Test kernels whose results are wrong as those of real kernels have been.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/test_kernel.h"

namespace lcab {
namespace {

constexpr int64_t kTileRows = 64;
constexpr int64_t kTileKeys = 512;

using Distortion = std::function<absl::Status(HeadGroup&, int64_t group)>;

// The problem with each group of its mask changed.
absl::StatusOr<Problem> WithMask(const Problem& problem, const Distortion& distort) {
  const Mask& mask = *problem.mask;
  std::vector<HeadGroup> groups;
  for (int64_t group = 0; group < mask.groups(); ++group) {
    HeadGroup changed;
    changed.bands.assign(mask.bands(group).begin(), mask.bands(group).end());
    if (mask.block_map(group) != nullptr) changed.block_map = *mask.block_map(group);
    if (absl::Status status = distort(changed, group); !status.ok()) return status;
    groups.push_back(std::move(changed));
  }
  absl::StatusOr<Mask> made = Mask::Create(mask.q_tokens(), mask.k_tokens(), std::move(groups));
  if (!made.ok()) {
    return absl::UnimplementedError(
        "this test kernel cannot plant its fault in this mask: bands would overlap");
  }
  Problem changed = problem;
  changed.mask = std::make_shared<const Mask>(*std::move(made));
  return changed;
}

// One tile of 512 keys is skipped for the last tile of queries: the first that holds any pair.
class SkipTile : public Fault {
 public:
  explicit SkipTile(const Options& /*options*/) {}

  absl::StatusOr<Problem> Distort(const Problem& problem) override {
    const Mask& mask = *problem.mask;
    const int64_t last_row = std::max<int64_t>(0, mask.q_tokens() - 1);
    const Interval rows = {last_row / kTileRows * kTileRows, mask.q_tokens()};
    return WithMask(problem, [&](HeadGroup& group, int64_t index) {
      Interval keys = {0, std::min(kTileKeys, mask.k_tokens())};
      while (keys.begin < mask.k_tokens() && mask.Area(index, rows, keys) == 0) {
        keys = {keys.end, std::min(keys.end + kTileKeys, mask.k_tokens())};
      }
      std::vector<Band> bands;
      for (const Band& band : group.bands) {
        const Interval all_keys = {band.k0, band.k1};
        for (const Band& part :
             {Clip(band, {band.q0, rows.begin}, all_keys),
              Clip(band, {rows.end, band.q1}, all_keys), Clip(band, rows, {band.k0, keys.begin}),
              Clip(band, rows, {keys.end, band.k1})}) {
          if (AreaOf(part) > 0) bands.push_back(part);
        }
      }
      group.bands = std::move(bands);
      return absl::OkStatus();
    });
  }
};

// Windows let one key more in at their far end; where there is no far end, diagonals let one more
// in at theirs.
class WindowWide : public Fault {
 public:
  explicit WindowWide(const Options& /*options*/) {}

  absl::StatusOr<Problem> Distort(const Problem& problem) override {
    return WithMask(problem, [](HeadGroup& group, int64_t) {
      bool widened = false;
      for (Band& band : group.bands) {
        if (!band.lower) continue;
        --*band.lower;
        band.k0 = std::max<int64_t>(0, band.k0 - 1);  // ranges are as tight as bounds
        widened = true;
      }
      for (Band& band : group.bands) {
        if (widened || !band.upper) continue;
        ++*band.upper;
        widened = true;
      }
      if (widened) return absl::OkStatus();
      return absl::UnimplementedError("test_window_wide needs a mask with a window or a diagonal");
    });
  }
};

void SwapRows(const TensorView& tensor, int64_t token, int64_t a, int64_t b) {
  std::byte* const first = tensor.At(token, a);
  std::swap_ranges(first, first + tensor.dim * SizeOf(tensor.dtype), tensor.At(token, b));
}

// The last token's rows of tensors, to be put back.
class LastRows {
 public:
  void Save(const std::vector<TensorView>& tensors) {
    rows_.clear();
    for (const TensorView& tensor : tensors) {
      for (int64_t head = 0; head < tensor.heads && tensor.tokens > 0; ++head) {
        std::byte* const row = tensor.At(tensor.tokens - 1, head);
        rows_.push_back({row, {row, row + tensor.dim * SizeOf(tensor.dtype)}});
      }
    }
  }
  void Restore() {
    for (const Row& row : rows_) std::copy(row.bytes.begin(), row.bytes.end(), row.place);
  }

 private:
  struct Row {
    std::byte* place;
    std::vector<std::byte> bytes;
  };
  std::vector<Row> rows_;
};

class LastRow : public Fault {
 public:
  explicit LastRow(const Options& /*options*/) {}

  absl::StatusOr<bool> BeforeForward(int64_t /*call*/, const ForwardTensors& tensors) override {
    rows_.Save({tensors.out});
    return true;
  }
  void AfterForward(const ForwardTensors& /*tensors*/) override { rows_.Restore(); }
  absl::StatusOr<bool> BeforeBackward(int64_t /*call*/, const BackwardTensors& tensors) override {
    rows_.Save({tensors.dq, tensors.dk, tensors.dv});
    return true;
  }
  void AfterBackward(const BackwardTensors& /*tensors*/) override { rows_.Restore(); }

 private:
  LastRows rows_;
};

// Computes once; later calls write what the first one wrote, whatever the inputs.
class Replay : public Fault {
 public:
  explicit Replay(const Options& /*options*/) {}

  absl::StatusOr<bool> BeforeForward(int64_t call, const ForwardTensors& tensors) override {
    if (call == 1) return true;
    Write({tensors.out});
    for (int64_t head = 0; head < tensors.lse.heads; ++head) {
      for (int64_t token = 0; token < tensors.lse.tokens; ++token) {
        *tensors.lse.At(head, token) = lse_[static_cast<size_t>(head * tensors.lse.tokens + token)];
      }
    }
    return false;
  }
  void AfterForward(const ForwardTensors& tensors) override {
    Read({tensors.out});
    lse_.clear();
    for (int64_t head = 0; head < tensors.lse.heads; ++head) {
      for (int64_t token = 0; token < tensors.lse.tokens; ++token) {
        lse_.push_back(*tensors.lse.At(head, token));
      }
    }
  }
  absl::StatusOr<bool> BeforeBackward(int64_t call, const BackwardTensors& tensors) override {
    if (call == 1) return true;
    Write({tensors.dq, tensors.dk, tensors.dv});
    return false;
  }
  void AfterBackward(const BackwardTensors& tensors) override {
    Read({tensors.dq, tensors.dk, tensors.dv});
  }

 private:
  template <typename Body>
  static void ForEachRow(const std::vector<TensorView>& tensors, const Body& body) {
    for (const TensorView& tensor : tensors) {
      for (int64_t token = 0; token < tensor.tokens; ++token) {
        for (int64_t head = 0; head < tensor.heads; ++head) {
          body(tensor.At(token, head), tensor.dim * SizeOf(tensor.dtype));
        }
      }
    }
  }
  void Read(const std::vector<TensorView>& tensors) {
    first_.clear();
    ForEachRow(tensors, [&](std::byte* row, int64_t bytes) {
      first_.insert(first_.end(), row, row + bytes);
    });
  }
  void Write(const std::vector<TensorView>& tensors) const {
    size_t next = 0;
    ForEachRow(tensors, [&](std::byte* row, int64_t bytes) {
      std::memcpy(row, first_.data() + next, static_cast<size_t>(bytes));
      next += static_cast<size_t>(bytes);
    });
  }

  std::vector<std::byte> first_;
  std::vector<float> lse_;
};

// The first and the last query head change places.
class WrongHead : public Fault {
 public:
  explicit WrongHead(const Options& /*options*/) {}

  absl::StatusOr<Problem> Distort(const Problem& problem) override {
    if (problem.q_heads > 1) return problem;
    return absl::UnimplementedError("test_wrong_head needs two query heads");
  }
  void AfterForward(const ForwardTensors& tensors) override {
    for (int64_t token = 0; token < tensors.out.tokens; ++token) {
      SwapRows(tensors.out, token, 0, tensors.out.heads - 1);
      std::swap(*tensors.lse.At(0, token), *tensors.lse.At(tensors.lse.heads - 1, token));
    }
  }
  void AfterBackward(const BackwardTensors& tensors) override {
    for (int64_t token = 0; token < tensors.dq.tokens; ++token) {
      SwapRows(tensors.dq, token, 0, tensors.dq.heads - 1);
    }
  }
};

// The results are right; one element of Q has changed its sign.
class MutatesInput : public Fault {
 public:
  explicit MutatesInput(const Options& /*options*/) {}
  void AfterForward(const ForwardTensors& tensors) override { Flip(tensors.q); }
  void AfterBackward(const BackwardTensors& tensors) override { Flip(tensors.q); }

 private:
  static void Flip(const TensorView& q) {
    if (q.tokens == 0) return;
    // The sign is the highest bit of the last byte of both dtypes on little-endian machines.
    q.At(q.tokens / 2, 0)[SizeOf(q.dtype) - 1] ^= std::byte{0x80};
  }
};

class Silent : public Fault {
 public:
  explicit Silent(const Options& /*options*/) {}
  absl::StatusOr<bool> BeforeForward(int64_t, const ForwardTensors&) override { return false; }
  absl::StatusOr<bool> BeforeBackward(int64_t, const BackwardTensors&) override { return false; }
};

template <typename T>
std::unique_ptr<Fault> Make(const Options& options) {
  return std::make_unique<T>(options);
}

}  // namespace

std::vector<FaultType> ResultFaults() {
  return {
      {"test_skip_tile", "skips one tile of 512 keys for the last 64 rows", {}, Make<SkipTile>},
      {"test_window_wide", "lets one key too many into windows", {}, Make<WindowWide>},
      {"test_last_row", "does not write the last row of out and gradients", {}, Make<LastRow>},
      {"test_replay", "writes the results of its first call for ever after", {}, Make<Replay>},
      {"test_wrong_head", "swaps the first and the last query head", {}, Make<WrongHead>},
      {"test_mutates_input", "changes an element of Q", {}, Make<MutatesInput>},
      {"test_silent", "returns at once and writes nothing", {}, Make<Silent>},
  };
}

}  // namespace lcab
