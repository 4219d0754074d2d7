#include "cp/executors/planted_fault.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp {

absl::StatusOr<PlantedFault> PlantedFault::Create(std::string_view name, const RankPlan& plan) {
  PlantedFault fault;
  if (name.empty()) return fault;
  if (name == "stale_key") {
    fault.stale_key_ = true;
    for (const Step& step : plan.backward) {
      const auto* attend = std::get_if<AttendBackward>(&step.action);
      if (attend == nullptr) continue;
      const Buffer& buffer = plan.buffers[static_cast<size_t>(attend->k.buffer)];
      fault.key_bytes_ = std::max(fault.key_bytes_,
                                  buffer.rows * buffer.heads * buffer.dim * SizeOf(buffer.dtype));
    }
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

absl::Status PlantedFault::Prepare(Device& device) {
  int64_t kept_bytes = 0;
  for (const Interval& row : dropped_) kept_bytes += row.size();
  for (const auto& [memory, bytes] :
       {std::pair(&key_, key_bytes_), std::pair(&previous_key_, key_bytes_),
        std::pair(&kept_, kept_bytes)}) {
    if (bytes == 0) continue;
    absl::StatusOr<Memory> made = device.Allocate(bytes);
    if (!made.ok()) return made.status();
    *memory = *std::move(made);
  }
  return absl::OkStatus();
}

absl::Status PlantedFault::BeginPass(Pass pass, std::byte* slab, Device& device) {
  used_ = 0;
  if (pass != Pass::kForward) return absl::OkStatus();
  std::byte* to = kept_.data();
  for (const Interval& row : dropped_) {
    absl::Status s = device.Copy(to, slab + row.begin, row.size(), device.stream());
    if (!s.ok()) return s;
    to += row.size();
  }
  return absl::OkStatus();
}

absl::Status PlantedFault::EndPass(Pass pass, std::byte* slab, Device& device) const {
  if (pass != Pass::kForward) return absl::OkStatus();
  const std::byte* from = kept_.data();
  for (const Interval& row : dropped_) {
    absl::Status s = device.Copy(slab + row.begin, from, row.size(), device.stream());
    if (!s.ok()) return s;
    from += row.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorView> PlantedFault::KeyFor(const TensorView& k, Device& device,
                                                Stream& stream) {
  if (!stale_key_) return k;
  std::swap(previous_key_, key_);
  previous_used_ = used_;
  used_ = k.tokens * k.heads * k.dim * SizeOf(k.dtype);
  if (absl::Status s = device.Copy(key_.data(), k.data, used_, stream); !s.ok()) return s;
  if (previous_used_ != used_) return k;
  TensorView stale = k;
  stale.data = previous_key_.data();
  return stale;
}

}  // namespace lcab::cp
