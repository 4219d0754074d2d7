// The steps between attention calls on a CPU: merging, adding, copying, filling, delta. Each
// spreads its rows over the device's threads.

#ifndef LCAB_CP_EXECUTORS_ELEMENTWISE_H_
#define LCAB_CP_EXECUTORS_ELEMENTWISE_H_

#include "cp/executors/operand.h"
#include "device/device.h"

namespace lcab::cp {

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
