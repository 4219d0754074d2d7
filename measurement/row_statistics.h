// LSE and delta of every row of a head in fp64, by vectors and threads: what a gradient of one key
// needs of all rows that see it. attention/reference.h is the slow form that it is tested against.

#ifndef LCAB_MEASUREMENT_ROW_STATISTICS_H_
#define LCAB_MEASUREMENT_ROW_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "measurement/head_inputs.h"

namespace lcab::measurement {

// [q_heads, q_tokens] of the head's problem.
struct RowStatistics {
  std::vector<double> lse;          // natural log; -inf for a row without keys
  std::vector<double> delta;        // sum_d dout * out; empty when there is no dout
  std::vector<double> delta_terms;  // root of sum_d (dout * out)^2; empty likewise
};

RowStatistics ComputeRowStatistics(const HeadInputs& inputs, const ParallelFor& parallel_for);

// Multiply-adds that it takes for a head with this many allowed pairs, over the group's query
// heads.
int64_t RowStatisticsCost(const Problem& problem, int64_t pairs);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_ROW_STATISTICS_H_
