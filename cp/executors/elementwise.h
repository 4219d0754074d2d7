// The steps between attention calls on a CPU: merging, adding, copying, filling, delta. Each
// spreads its rows over the device's threads.

#ifndef LCAB_CP_EXECUTORS_ELEMENTWISE_H_
#define LCAB_CP_EXECUTORS_ELEMENTWISE_H_

#include <cstddef>
#include <cstdint>

#include "cp/plan.h"
#include "device/device.h"

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

// out and part are fp32, as are the LSEs. Neither -inf nor far-apart LSEs give NaN; a part without
// keys changes no bit, and a part merged into nothing is taken as it is.
// o = sum_i exp(lse_i - lse) o_i with lse = ln sum_i exp(lse_i).
void MergePart(const Operand& out, const Operand& lse, const Operand& part, const Operand& part_lse,
               Workers& workers);

// to += from, summed in fp32.
void AddTo(const Operand& to, const Operand& from, Workers& workers);

// to = from, rounded to to's dtype.
void CopyTo(const Operand& to, const Operand& from, Workers& workers);

void FillWith(const Operand& to, float value, Workers& workers);

// delta = sum over channels of dout * out, accumulated in fp64.
void ComputeDelta(const Operand& out, const Operand& dout, const Operand& delta, Workers& workers);

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_ELEMENTWISE_H_
