#include "cp/executors/planted_fault.h"

#include <algorithm>

#include "fmt/format.h"

namespace lcab::cp {

absl::StatusOr<PlantedFault> PlantedFault::Create(std::string_view name, const RankPlan& plan) {
  PlantedFault fault;
  if (name.empty()) return fault;
  if (name == "stale_key") {
    fault.stale_key_ = true;
    return fault;
  }
  if (name == "skip_merge") {
    for (int i = 0; i < static_cast<int>(plan.forward.size()); ++i) {
      const Action& action = plan.forward[static_cast<size_t>(i)].action;
      if (std::holds_alternative<Merge>(action)) fault.skipped_step_ = i;
    }
    return fault;
  }
  if (name == "drop_row") {
    for (const Held& held : plan.forward_outputs) {
      if (held.tensor != Tensor::kOut || held.view.rows.empty()) continue;
      const Buffer& buffer = plan.buffers[static_cast<size_t>(held.view.buffer)];
      const int64_t row_bytes = buffer.heads * buffer.dim * SizeOf(buffer.dtype);
      const int64_t last = buffer.offset + (held.view.rows.back().end - 1) * row_bytes;
      fault.dropped_.push_back({last, last + row_bytes});
    }
    return fault;
  }
  return absl::InvalidArgumentError(fmt::format(
      "no fault '{}' can be planted; there are: stale_key, skip_merge, drop_row", name));
}

void PlantedFault::BeginPass(Pass pass, std::byte* slab) {
  key_.clear();
  kept_.clear();
  if (pass != Pass::kForward) return;
  for (const Interval& row : dropped_) {
    kept_.insert(kept_.end(), slab + row.begin, slab + row.end);
  }
}

void PlantedFault::EndPass(Pass pass, std::byte* slab) const {
  if (pass != Pass::kForward) return;
  auto from = kept_.begin();
  for (const Interval& row : dropped_) {
    std::copy_n(from, row.size(), slab + row.begin);
    from += row.size();
  }
}

TensorView PlantedFault::KeyFor(const TensorView& k) {
  if (!stale_key_) return k;
  std::swap(previous_key_, key_);
  const int64_t bytes = k.tokens * k.heads * k.dim * SizeOf(k.dtype);
  key_.assign(k.data, k.data + bytes);
  if (previous_key_.size() != key_.size()) return k;
  TensorView stale = k;
  stale.data = previous_key_.data();
  return stale;
}

}  // namespace lcab::cp
