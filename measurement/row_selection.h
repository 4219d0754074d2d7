// Which rows and keys are compared with fp64: one, drawn, in each stratum of 64 of every head, and
// those at edges of the mask; fewer where that would cost too much.

#ifndef LCAB_MEASUREMENT_ROW_SELECTION_H_
#define LCAB_MEASUREMENT_ROW_SELECTION_H_

#include <cstdint>
#include <vector>

#include "attention/problem.h"

namespace lcab::measurement {

struct RowSelection {
  std::vector<std::vector<int64_t>> rows;  // by query head: ascending
  std::vector<std::vector<int64_t>> keys;  // by kv head: ascending; backward only

  int64_t rows_selected() const;
  int64_t keys_selected() const;
};

// Multiply-adds, about, of the fp64 reference and of what rounding does to it.
struct SelectionBudget {
  // Of the rows and keys themselves. Above it only every n-th stratum is drawn from, another one in
  // each head, and edges give way in the same proportion.
  double reference = 1.5e9;
  // Of LSE and delta of all rows, which keys need; vectorised, so cheaper each. Above it only some
  // kv heads, drawn, give keys; where even one head is beyond `statistics_ceiling`, none does, and
  // dK and dV rest on the probe.
  double statistics = 40e9;
  double statistics_ceiling = 4e12;
};

// The same on every rank for one seed. The forward pass selects no keys.
RowSelection SelectRows(const Problem& problem, Pass pass, uint64_t seed,
                        const SelectionBudget& budget = {});

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_ROW_SELECTION_H_
