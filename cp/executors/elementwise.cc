#include "cp/executors/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lcab::cp {
namespace {

constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

// Rows or heads of a view by their place in it. One run, the usual case, needs no list.
class Indices {
 public:
  explicit Indices(const std::vector<Interval>& runs) {
    for (const Interval& run : runs) size_ += run.size();
    if (!runs.empty()) first_ = runs.front().begin;
    if (runs.size() < 2) return;
    for (const Interval& run : runs) {
      for (int64_t i = run.begin; i < run.end; ++i) list_.push_back(i);
    }
  }
  int64_t size() const { return size_; }
  int64_t operator[](int64_t n) const {
    return list_.empty() ? first_ + n : list_[static_cast<size_t>(n)];
  }

 private:
  int64_t size_ = 0;
  int64_t first_ = 0;
  std::vector<int64_t> list_;
};

float Load(const float* at) { return *at; }
float Load(const BFloat16* at) { return ToFloat(*at); }
void Store(float* at, float value) { *at = value; }
void Store(BFloat16* at, float value) { *at = ToBFloat16(value); }

// An operand with its rows and heads spelled out.
class Rows {
 public:
  explicit Rows(const Operand& operand)
      : operand_(operand), rows_(operand.view->rows), heads_(operand.view->heads) {}

  int64_t rows() const { return rows_.size(); }
  int64_t heads() const { return heads_.size(); }
  int64_t dim() const { return operand_.dim; }

  // The channels of the n-th row and head of the view.
  template <typename T>
  T* At(int64_t row, int64_t head) const {
    const int64_t element = rows_[row] * operand_.row_stride + heads_[head] * operand_.head_stride;
    return reinterpret_cast<T*>(operand_.data) + element;
  }

 private:
  const Operand& operand_;
  const Indices rows_, heads_;
};

// Calls body(row, head) for each row and head, rows spread over the threads in blocks that are
// large enough to be worth handing out.
template <typename Body>
void ForEach(const Rows& rows, Workers& workers, const Body& body) {
  constexpr int64_t kElementsPerPart = int64_t{16} * 1024;
  const int64_t row_elements = std::max<int64_t>(1, rows.heads() * rows.dim());
  const int64_t block = std::max<int64_t>(1, kElementsPerPart / row_elements);
  const int64_t parts = (rows.rows() + block - 1) / block;
  workers.Run(parts, [&](int64_t part, int) {
    const int64_t end = std::min(rows.rows(), (part + 1) * block);
    for (int64_t row = part * block; row < end; ++row) {
      for (int64_t head = 0; head < rows.heads(); ++head) body(row, head);
    }
  });
}

// Calls body(T{}) with the element type of the operand.
template <typename Body>
void WithType(DType dtype, const Body& body) {
  if (dtype == DType::kFloat32) {
    body(float{});
  } else {
    body(BFloat16{});
  }
}

}  // namespace

void MergePart(const Operand& out, const Operand& lse, const Operand& part, const Operand& part_lse,
               Workers& workers) {
  const Rows outs(out), lses(lse), parts(part), part_lses(part_lse);
  ForEach(outs, workers, [&](int64_t row, int64_t head) {
    const float theirs = *part_lses.At<float>(row, head);
    if (theirs == kNoKeys) return;
    float* own_lse = lses.At<float>(row, head);
    float* own = outs.At<float>(row, head);
    const float* other = parts.At<float>(row, head);
    if (*own_lse == kNoKeys) {
      std::copy_n(other, outs.dim(), own);
      *own_lse = theirs;
      return;
    }
    // The larger weight is exactly 1, so nothing overflows and the sum is at least 1.
    const float top = std::max(*own_lse, theirs);
    const float own_weight = std::exp(*own_lse - top);
    const float other_weight = std::exp(theirs - top);
    const float sum = own_weight + other_weight;
    const float own_share = own_weight / sum, other_share = other_weight / sum;
    for (int64_t d = 0; d < outs.dim(); ++d) own[d] = own_share * own[d] + other_share * other[d];
    *own_lse = top + std::log(sum);
  });
}

void AddTo(const Operand& to, const Operand& from, Workers& workers) {
  const Rows tos(to), froms(from);
  WithType(to.dtype, [&](auto to_type) {
    WithType(from.dtype, [&](auto from_type) {
      ForEach(tos, workers, [&](int64_t row, int64_t head) {
        auto* a = tos.At<decltype(to_type)>(row, head);
        const auto* b = froms.At<decltype(from_type)>(row, head);
        for (int64_t d = 0; d < tos.dim(); ++d) Store(a + d, Load(a + d) + Load(b + d));
      });
    });
  });
}

void CopyTo(const Operand& to, const Operand& from, Workers& workers) {
  const Rows tos(to), froms(from);
  WithType(to.dtype, [&](auto to_type) {
    WithType(from.dtype, [&](auto from_type) {
      using To = decltype(to_type);
      using From = decltype(from_type);
      ForEach(tos, workers, [&](int64_t row, int64_t head) {
        To* a = tos.At<To>(row, head);
        const From* b = froms.At<From>(row, head);
        if constexpr (std::is_same_v<To, From>) {
          std::copy_n(b, tos.dim(), a);
        } else {
          for (int64_t d = 0; d < tos.dim(); ++d) Store(a + d, Load(b + d));
        }
      });
    });
  });
}

void FillWith(const Operand& to, float value, Workers& workers) {
  const Rows tos(to);
  WithType(to.dtype, [&](auto type) {
    ForEach(tos, workers, [&](int64_t row, int64_t head) {
      auto* a = tos.At<decltype(type)>(row, head);
      for (int64_t d = 0; d < tos.dim(); ++d) Store(a + d, value);
    });
  });
}

void ComputeDelta(const Operand& out, const Operand& dout, const Operand& delta, Workers& workers) {
  const Rows outs(out), douts(dout), deltas(delta);
  WithType(out.dtype, [&](auto out_type) {
    WithType(dout.dtype, [&](auto dout_type) {
      ForEach(outs, workers, [&](int64_t row, int64_t head) {
        const auto* a = outs.At<decltype(out_type)>(row, head);
        const auto* b = douts.At<decltype(dout_type)>(row, head);
        double sum = 0;
        for (int64_t d = 0; d < outs.dim(); ++d) {
          sum += static_cast<double>(Load(a + d)) * static_cast<double>(Load(b + d));
        }
        *deltas.At<float>(row, head) = static_cast<float>(sum);
      });
    });
  });
}

}  // namespace lcab::cp
