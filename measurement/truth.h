// What the selected rows and keys of a problem must be, by the fp64 reference, and how far from it
// a good kernel in the problem's dtype may be.
//
// The yardstick is an emulation of such a kernel on the same rows: with rho the largest error of
// the emulation among a head's rows, relative to the size of what each row adds up (its norm, or
// the root of the sum of its terms' squares where terms cancel), a row may be off by kSlack * rho
// times that size. rho is at least the rounding of a bf16 output, or four roundings of fp32, and
// four roundings of fp32 times the largest LSE, which is what weights suffer from large logits. The
// LSE may be off by 2e-4 + 2^-21 of it, and kSlack times the emulation's worst error.

#ifndef LCAB_MEASUREMENT_TRUTH_H_
#define LCAB_MEASUREMENT_TRUTH_H_

#include <cstdint>
#include <vector>

#include "attention/inputs.h"
#include "attention/problem.h"
#include "measurement/head_inputs.h"
#include "measurement/row_selection.h"

namespace lcab::measurement {

inline constexpr double kSlack = 3;

// A row of out, dQ (head: query head, token: row), dK or dV (kv head, key); LSE has one value.
struct TruthRow {
  Tensor tensor = Tensor::kOut;
  int64_t head = 0;
  int64_t token = 0;
  std::vector<double> values;
  double allowed = 0;  // largest L2 norm of the error; 0: the row must be exact
  double scale = 0;    // what its error is relative to
  Distribution distribution = Distribution::kNormal;  // of the inputs
};

// Of one kv head and the query heads of its group. Forward: out and LSE of the selected rows;
// backward: dQ of the rows, dK and dV of the keys.
std::vector<TruthRow> ComputeTruth(const Problem& problem, Pass pass, const InputSource& source,
                                   const RowSelection& selection, int64_t kv_head,
                                   const ParallelFor& parallel_for);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_TRUTH_H_
