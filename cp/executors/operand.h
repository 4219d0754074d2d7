// Where a view of a plan lies in a rank's memory.

#ifndef LCAB_CP_EXECUTORS_OPERAND_H_
#define LCAB_CP_EXECUTORS_OPERAND_H_

#include <cstddef>
#include <cstdint>

#include "cp/plan.h"
#include "kernels/tensor.h"

namespace lcab::cp {

// A view in memory: its rows and heads need not be adjacent. Element (row, head, channel) of the
// buffer is at data + row * row_stride + head * head_stride + channel, in elements.
struct Operand {
  std::byte* data = nullptr;  // of the buffer
  DType dtype = DType::kFloat32;
  int64_t dim = 0;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  const View* view = nullptr;  // which rows and heads
};

// `slab` is the rank's memory; `view` must outlive the result and be of a buffer of the plan.
Operand OperandOf(const RankPlan& plan, const View& view, std::byte* slab);

// The same as kernels take it. The view must be one run of rows and one of heads, or empty, which
// Prove() holds for what a kernel reads or writes.
TensorView TensorViewOf(const RankPlan& plan, const View& view, std::byte* slab);
RowStatView RowStatViewOf(const RankPlan& plan, const View& view, std::byte* slab);

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_OPERAND_H_
