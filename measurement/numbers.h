// Numbers: selected rows of outputs against fp64. Rows are kept as they are right after an
// iteration and compared later, when nothing is being timed.

#ifndef LCAB_MEASUREMENT_NUMBERS_H_
#define LCAB_MEASUREMENT_NUMBERS_H_

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cp/executor.h"
#include "device/device.h"
#include "measurement/findings.h"
#include "measurement/row_selection.h"
#include "measurement/truth.h"

namespace lcab::measurement {

// Copies of the selected rows that this rank holds.
class KeptRows {
 public:
  static absl::StatusOr<KeptRows> Copy(std::span<const cp::Shard> outputs,
                                       const RowSelection& selection, Device& device,
                                       absl::Time deadline);

  // Nullptr when this rank does not hold it.
  const std::vector<float>* Find(Tensor tensor, int64_t head, int64_t token) const;
  size_t size() const { return rows_.size(); }

 private:
  std::map<std::tuple<Tensor, int64_t, int64_t>, std::vector<float>> rows_;
};

// Compares those of `truth` that were kept; returns how many.
int64_t CompareRows(const KeptRows& kept, std::span<const TruthRow> truth, Findings* findings);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_NUMBERS_H_
