#include "cp/executors/operand.h"

namespace lcab::cp {

Operand OperandOf(const RankPlan& plan, const View& view, std::byte* slab) {
  const Buffer& buffer = plan.buffers[static_cast<size_t>(view.buffer)];
  Operand operand{.data = slab + buffer.offset,
                  .dtype = buffer.dtype,
                  .dim = buffer.dim,
                  .row_stride = buffer.heads * buffer.dim,
                  .head_stride = buffer.dim,
                  .view = &view};
  if (buffer.head_major) {
    operand.row_stride = buffer.dim;
    operand.head_stride = buffer.rows * buffer.dim;
  }
  return operand;
}

TensorView TensorViewOf(const RankPlan& plan, const View& view, std::byte* slab) {
  const Operand operand = OperandOf(plan, view, slab);
  const Interval rows = view.rows.empty() ? Interval{} : view.rows.front();
  const Interval heads = view.heads.empty() ? Interval{} : view.heads.front();
  TensorView tensor{.data = operand.data,
                    .dtype = operand.dtype,
                    .tokens = rows.size(),
                    .heads = heads.size(),
                    .dim = operand.dim,
                    .token_stride = operand.row_stride,
                    .head_stride = operand.head_stride};
  tensor.data = tensor.At(rows.begin, heads.begin);
  return tensor;
}

RowStatView RowStatViewOf(const RankPlan& plan, const View& view, std::byte* slab) {
  const TensorView tensor = TensorViewOf(plan, view, slab);
  return {.data = reinterpret_cast<float*>(tensor.data),
          .heads = tensor.heads,
          .tokens = tensor.tokens,
          .head_stride = tensor.head_stride,
          .token_stride = tensor.token_stride};
}

}  // namespace lcab::cp
