// What the selected rows and keys of a problem must be, by the fp64 reference, and how far from it
// a good kernel in the problem's dtype may be: kSlack standard errors of what rounding alone does
// to that row, from its own logits and terms (measurement/rounding.h).

#ifndef LCAB_MEASUREMENT_TRUTH_H_
#define LCAB_MEASUREMENT_TRUTH_H_

#include <cstdint>
#include <vector>

#include "attention/inputs.h"
#include "attention/problem.h"
#include "measurement/head_inputs.h"
#include "measurement/row_selection.h"

namespace lcab::measurement {

// A row of out, dQ (head: query head, token: row), dK or dV (kv head, key); LSE has one value.
struct TruthRow {
  Tensor tensor = Tensor::kOut;
  int64_t head = 0;
  int64_t token = 0;
  std::vector<double> values;
  double allowed = 0;  // largest L2 norm of the error; 0: the row must be exact
  // What its error is told relative to: its norm, or the root of its terms' squares where they
  // cancel.
  double scale = 0;
  Distribution distribution = Distribution::kNormal;  // of the inputs
};

// Of one kv head and the query heads of its group. Forward: out and LSE of the selected rows;
// backward: dQ of the rows, dK and dV of the keys.
std::vector<TruthRow> ComputeTruth(const Problem& problem, Pass pass, const InputSource& source,
                                   const RowSelection& selection, int64_t kv_head,
                                   const ParallelFor& parallel_for);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_TRUTH_H_
