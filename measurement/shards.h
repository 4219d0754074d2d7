// Rows of shards, to and from device memory: how inputs get there and how outputs are looked at.
// All goes through the device's copies, so that it works wherever the memory is.

#ifndef LCAB_MEASUREMENT_SHARDS_H_
#define LCAB_MEASUREMENT_SHARDS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "attention/problem.h"
#include "attention/tokens.h"
#include "cp/executor.h"
#include "device/device.h"

namespace lcab::measurement {

// Runs body(part, thread) for part in [0, parts) on the device's workers, or here where it has
// none.
void RunParts(Device& device, int64_t parts,
              const std::function<void(int64_t part, int thread)>& body);
// Threads that RunParts() may use.
int PartThreads(Device& device);

// Fills in the row of `tensor` for (token, head): dim floats. Called from several threads at once.
using RowSource =
    std::function<void(Tensor tensor, int64_t token, int64_t head, std::span<float> row)>;

// Writes every row of the shards, rounded to their dtype; rows that hold no token become 0. All is
// written when it returns.
absl::Status WriteShards(std::span<const cp::Shard> shards, const RowSource& source, Device& device,
                         absl::Time deadline);

// A row as it lies in the shard: dim floats (1 for LSE).
using RowVisitor =
    std::function<void(int64_t token, int64_t head, std::span<const float> row, int thread)>;

// Shows the rows of heads `heads` (of the problem; clipped to the shard's) that hold a token, from
// several threads at once; one thread sees runs of 64 rows of one head in order.
absl::Status VisitRows(const cp::Shard& shard, Interval heads, const RowVisitor& visit,
                       Device& device, absl::Time deadline);

// One row: empty when the shard does not hold it.
absl::StatusOr<std::vector<float>> ReadRow(const cp::Shard& shard, int64_t token, int64_t head,
                                           Device& device, absl::Time deadline);

// Fills the shards with bits that are NaN in every dtype (all ones).
absl::Status Poison(std::span<const cp::Shard> shards, Device& device);
// Whether a value still holds that poison, as against a NaN that was computed.
bool IsPoison(float value);

// Heads or rows of a shard's tensor in memory, LSE and tensors alike.
int64_t RowsOf(const cp::Shard& shard);
int64_t DimOf(const cp::Shard& shard);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_SHARDS_H_
