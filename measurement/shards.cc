#include "measurement/shards.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "attention/dtype.h"
#include "kernels/tensor.h"

namespace lcab::measurement {
namespace {

constexpr int64_t kBlockBytes = int64_t{8} << 20;
constexpr int64_t kRunRows = 64;

// A shard as rows of heads of bytes, whichever kind of view it has.
struct Layout {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t rows = 0, heads = 0, dim = 0;
  int64_t row_bytes = 0, head_bytes = 0;  // strides

  int64_t element_bytes() const { return dim * SizeOf(dtype); }
  std::byte* At(int64_t row, int64_t head) const {
    return data + row * row_bytes + head * head_bytes;
  }
};

Layout LayoutOf(const cp::Shard& shard) {
  if (shard.row_stat.data != nullptr) {
    const RowStatView& stat = shard.row_stat;
    return {reinterpret_cast<std::byte*>(stat.data),
            DType::kFloat32,
            stat.tokens,
            stat.heads,
            1,
            stat.token_stride * static_cast<int64_t>(sizeof(float)),
            stat.head_stride * static_cast<int64_t>(sizeof(float))};
  }
  const TensorView& view = shard.view;
  return {view.data,
          view.dtype,
          view.tokens,
          view.heads,
          view.dim,
          view.token_stride * SizeOf(view.dtype),
          view.head_stride * SizeOf(view.dtype)};
}

// A dense copy of rows x heads in host memory, in the order in which pieces are longest: [rows,
// heads, dim], or [heads, rows, dim] where the rows of a head adjoin in the device's memory.
struct Dense {
  Dense(const Layout& layout, Interval rows, Interval heads)
      : head_major(layout.row_bytes == layout.element_bytes() && heads.size() > 1),
        row_bytes(layout.element_bytes() * (head_major ? 1 : heads.size())),
        head_bytes(layout.element_bytes() * (head_major ? rows.size() : 1)),
        bytes(rows.size() * heads.size() * layout.element_bytes()) {}

  bool head_major;
  int64_t row_bytes, head_bytes;
  int64_t bytes;
};

// Calls piece(in device memory, offset in the dense copy, bytes) for contiguous pieces.
template <typename Piece>
absl::Status ForPieces(const Layout& layout, Interval rows, Interval heads, const Piece& piece) {
  const Dense dense(layout, rows, heads);
  // Seen as outer runs of inner runs of elements.
  const Interval outer = dense.head_major ? heads : rows;
  const Interval inner = dense.head_major ? rows : heads;
  const auto at = [&](int64_t o, int64_t i) {
    return dense.head_major ? layout.At(i, o) : layout.At(o, i);
  };
  const int64_t element = layout.element_bytes();
  const int64_t run = inner.size() * element;
  const int64_t inner_stride = dense.head_major ? layout.row_bytes : layout.head_bytes;
  const int64_t outer_stride = dense.head_major ? layout.head_bytes : layout.row_bytes;
  const bool inner_adjoins = inner_stride == element || inner.size() == 1;
  if (inner_adjoins && (outer_stride == run || outer.size() == 1)) {
    return piece(at(outer.begin, inner.begin), int64_t{0}, outer.size() * run);
  }
  for (int64_t o = outer.begin; o < outer.end; ++o) {
    const int64_t offset = (o - outer.begin) * run;
    if (inner_adjoins) {
      if (absl::Status s = piece(at(o, inner.begin), offset, run); !s.ok()) return s;
      continue;
    }
    for (int64_t i = inner.begin; i < inner.end; ++i) {
      absl::Status s = piece(at(o, i), offset + (i - inner.begin) * element, element);
      if (!s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

void ToFloats(const std::byte* from, DType dtype, std::span<float> to) {
  if (dtype == DType::kFloat32) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    BFloat16 value;
    std::memcpy(&value, from + i * sizeof(value), sizeof(value));
    to[i] = ToFloat(value);
  }
}

void FromFloats(std::span<const float> from, DType dtype, std::byte* to) {
  if (dtype == DType::kFloat32) {
    std::memcpy(to, from.data(), from.size_bytes());
    return;
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const BFloat16 value = ToBFloat16(from[i]);
    std::memcpy(to + i * sizeof(value), &value, sizeof(value));
  }
}

int64_t RowsOfBlock(const Layout& layout, int64_t heads) {
  const int64_t row_bytes = std::max<int64_t>(1, heads * layout.element_bytes());
  return std::max<int64_t>(1, kBlockBytes / row_bytes / kRunRows) * kRunRows;
}

}  // namespace

void RunParts(Device& device, int64_t parts,
              const std::function<void(int64_t part, int thread)>& body) {
  if (device.workers() != nullptr) {
    device.workers()->Run(parts, body);
    return;
  }
  for (int64_t part = 0; part < parts; ++part) body(part, 0);
}

int PartThreads(Device& device) {
  return device.workers() != nullptr ? device.workers()->threads() : 1;
}

int64_t RowsOf(const cp::Shard& shard) { return LayoutOf(shard).rows; }
int64_t DimOf(const cp::Shard& shard) { return LayoutOf(shard).dim; }

absl::Status WriteShards(std::span<const cp::Shard> shards, const RowSource& source, Device& device,
                         absl::Time deadline) {
  std::vector<std::byte> dense;
  for (const cp::Shard& shard : shards) {
    const Layout layout = LayoutOf(shard);
    if (layout.rows == 0 || layout.heads == 0) continue;
    const int64_t block = RowsOfBlock(layout, layout.heads);
    for (int64_t begin = 0; begin < layout.rows; begin += block) {
      const Interval rows = {begin, std::min(layout.rows, begin + block)};
      const Dense shape(layout, rows, {0, layout.heads});
      dense.assign(static_cast<size_t>(shape.bytes), std::byte{0});
      const int64_t runs = (rows.size() + kRunRows - 1) / kRunRows;
      RunParts(device, runs, [&](int64_t run, int) {
        std::vector<float> values(static_cast<size_t>(layout.dim));
        const int64_t first = rows.begin + run * kRunRows;
        for (int64_t row = first; row < std::min(rows.end, first + kRunRows); ++row) {
          const std::optional<int64_t> token = shard.tokens.TokenAt(row);
          if (!token.has_value()) continue;
          for (int64_t head = 0; head < layout.heads; ++head) {
            source(shard.tensor, *token, shard.heads.begin + head, values);
            FromFloats(
                values, layout.dtype,
                dense.data() + (row - rows.begin) * shape.row_bytes + head * shape.head_bytes);
          }
        }
      });
      absl::Status status = ForPieces(
          layout, rows, {0, layout.heads}, [&](std::byte* at, int64_t offset, int64_t bytes) {
            return device.CopyFromHost(at, dense.data() + offset, bytes, device.stream());
          });
      if (status.ok()) status = device.stream().Synchronize(deadline);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status VisitRows(const cp::Shard& shard, Interval heads, const RowVisitor& visit,
                       Device& device, absl::Time deadline) {
  const Layout layout = LayoutOf(shard);
  const Interval local = {std::max<int64_t>(heads.begin, shard.heads.begin) - shard.heads.begin,
                          std::min(heads.end, shard.heads.end) - shard.heads.begin};
  if (layout.rows == 0 || local.empty()) return absl::OkStatus();
  const int64_t block = RowsOfBlock(layout, local.size());
  std::vector<std::byte> dense;
  for (int64_t begin = 0; begin < layout.rows; begin += block) {
    const Interval rows = {begin, std::min(layout.rows, begin + block)};
    const Dense shape(layout, rows, local);
    dense.resize(static_cast<size_t>(shape.bytes));
    absl::Status status =
        ForPieces(layout, rows, local, [&](const std::byte* at, int64_t offset, int64_t bytes) {
          return device.CopyToHost(dense.data() + offset, at, bytes, device.stream());
        });
    if (status.ok()) status = device.stream().Synchronize(deadline);
    if (!status.ok()) return status;
    const int64_t runs = (rows.size() + kRunRows - 1) / kRunRows;
    RunParts(device, runs * local.size(), [&](int64_t part, int thread) {
      const int64_t head = part / runs;
      const int64_t first = rows.begin + part % runs * kRunRows;
      std::vector<float> values(static_cast<size_t>(layout.dim));
      for (int64_t row = first; row < std::min(rows.end, first + kRunRows); ++row) {
        const std::optional<int64_t> token = shard.tokens.TokenAt(row);
        if (!token.has_value()) continue;
        ToFloats(dense.data() + (row - rows.begin) * shape.row_bytes + head * shape.head_bytes,
                 layout.dtype, values);
        visit(*token, shard.heads.begin + local.begin + head, values, thread);
      }
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadRow(const cp::Shard& shard, int64_t token, int64_t head,
                                           Device& device, absl::Time deadline) {
  const std::optional<int64_t> row = shard.tokens.RowOf(token);
  if (!row.has_value() || !shard.heads.Contains(head)) return std::vector<float>();
  const Layout layout = LayoutOf(shard);
  std::vector<std::byte> bytes(static_cast<size_t>(layout.element_bytes()));
  absl::Status status = device.CopyToHost(bytes.data(), layout.At(*row, head - shard.heads.begin),
                                          layout.element_bytes(), device.stream());
  if (status.ok()) status = device.stream().Synchronize(deadline);
  if (!status.ok()) return status;
  std::vector<float> values(static_cast<size_t>(layout.dim));
  ToFloats(bytes.data(), layout.dtype, values);
  return values;
}

absl::Status Poison(std::span<const cp::Shard> shards, Device& device) {
  for (const cp::Shard& shard : shards) {
    const Layout layout = LayoutOf(shard);
    if (layout.rows == 0 || layout.heads == 0) continue;
    absl::Status status = ForPieces(layout, {0, layout.rows}, {0, layout.heads},
                                    [&](std::byte* at, int64_t, int64_t bytes) {
                                      return device.Fill(at, bytes, 0xFF, device.stream());
                                    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool IsPoison(float value) {
  // All ones as fp32, or as bf16 widened to it.
  const auto bits = std::bit_cast<uint32_t>(value);
  return bits == 0xFFFFFFFFU || bits == 0xFFFF0000U;
}

}  // namespace lcab::measurement
