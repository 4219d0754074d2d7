#include "kernels/cpu/tiled_kernel.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "kernels/cpu/tile_schedule.h"
#include "kernels/cpu/tiled_plan.h"
#include "kernels/tensor_check.h"

namespace lcab {
namespace {

constexpr Traits kTraits = {.wants_delta = true,
                            .float32_out = true,
                            .float32_gradients = true,
                            .accumulates = true,
                            .deterministic = true};

// One for each group of the mask.
std::vector<TileSchedule> MakeSchedules(const Problem& problem, const TileShape& shape) {
  std::vector<TileSchedule> schedules;
  for (int64_t group = 0; group < problem.mask->groups(); ++group) {
    schedules.emplace_back(*problem.mask, group, problem.heads_per_kv(), shape);
  }
  return schedules;
}

class PreparedTiled : public PreparedKernel {
 public:
  PreparedTiled(const Problem& problem, Pass pass, const TiledPlan& plan, const TiledSimd& simd,
                std::vector<TileSchedule> schedules, Memory workspace, Workers& workers)
      : problem_(problem),
        pass_(pass),
        plan_(plan),
        simd_(simd),
        schedules_(std::move(schedules)),
        workspace_(std::move(workspace)),
        workers_(workers) {
    if (pass == Pass::kForward) return;
    for (const TileSchedule& schedule : schedules_) shares_.emplace_back(schedule, plan_.shares);
  }

  absl::Status Forward(const ForwardTensors& tensors, Stream& stream) override {
    if (pass_ != Pass::kForward) return WrongPass();
    if (absl::Status status = CheckTensors(problem_, kTraits, tensors); !status.ok()) return status;
    return stream.Enqueue([this, tensors] {
      for (int64_t head = 0; head < problem_.kv_heads; head += plan_.batch) {
        const Interval heads = {head, std::min(head + plan_.batch, problem_.kv_heads)};
        PackBatch(tensors.k, tensors.v, heads);
        ForwardBatch(tensors, heads);
      }
      return absl::OkStatus();
    });
  }

  absl::Status Backward(const BackwardTensors& tensors, Stream& stream) override {
    if (pass_ != Pass::kBackward) return WrongPass();
    if (absl::Status status = CheckTensors(problem_, kTraits, tensors); !status.ok()) return status;
    return stream.Enqueue([this, tensors] {
      for (int64_t head = 0; head < problem_.kv_heads; head += plan_.batch) {
        const Interval heads = {head, std::min(head + plan_.batch, problem_.kv_heads)};
        PackBatch(tensors.k, tensors.v, heads);
        BackwardBatch(tensors, heads);
        UnpackBatch(tensors, heads);
      }
      return absl::OkStatus();
    });
  }

 private:
  // A kv head's place in the workspace.
  struct HeadBuffers {
    float* k_panels;
    float* k_strips;
    float* v_panels;
    float* v_strips;
    float* gradients;  // of each share: dk_strips, dv_strips
  };

  absl::Status WrongPass() const {
    return absl::FailedPreconditionError(
        fmt::format("this kernel was prepared for the {} pass", Name(pass_)));
  }

  HeadBuffers BuffersOf(int64_t place_in_batch) const {
    float* next = reinterpret_cast<float*>(workspace_.data()) + place_in_batch * plan_.HeadFloats();
    HeadBuffers buffers = {};
    buffers.k_panels = std::exchange(next, next + plan_.k_panels);
    buffers.k_strips = std::exchange(next, next + plan_.k_strips);
    buffers.v_panels = std::exchange(next, next + plan_.v_panels);
    buffers.v_strips = std::exchange(next, next + plan_.v_strips);
    buffers.gradients = next;
    return buffers;
  }
  float* DkStrips(const HeadBuffers& buffers, int64_t share) const {
    return buffers.gradients + share * (plan_.dk_strips + plan_.dv_strips);
  }
  float* DvStrips(const HeadBuffers& buffers, int64_t share) const {
    return DkStrips(buffers, share) + plan_.dk_strips;
  }
  float* ScratchOf(int thread) const {
    return reinterpret_cast<float*>(workspace_.data()) + plan_.batch * plan_.HeadFloats() +
           thread * plan_.scratch;
  }

  const TileSchedule& ScheduleOf(int64_t kv_head) const {
    return schedules_[static_cast<size_t>(problem_.mask->GroupOf(kv_head))];
  }
  const TileShares& SharesOf(int64_t kv_head) const {
    return shares_[static_cast<size_t>(problem_.mask->GroupOf(kv_head))];
  }
  GroupRows RowsOf(const TensorView& tensor, int64_t kv_head) const {
    return {tensor, kv_head * problem_.heads_per_kv(), problem_.heads_per_kv()};
  }
  GroupRowStats RowsOf(const RowStatView& stat, int64_t kv_head) const {
    return {stat, kv_head * problem_.heads_per_kv(), problem_.heads_per_kv()};
  }
  int64_t PartsOfKeys() const {
    return (plan_.keys + TiledPlan::kKeysOfPart - 1) / TiledPlan::kKeysOfPart;
  }
  Interval KeysOfPart(int64_t part) const {
    return {part * TiledPlan::kKeysOfPart,
            std::min((part + 1) * TiledPlan::kKeysOfPart, problem_.k_tokens())};
  }

  void PackBatch(const TensorView& k, const TensorView& v, Interval heads) {
    const int64_t parts = PartsOfKeys();
    workers_.Run(heads.size() * parts, [&](int64_t part, int) {
      const int64_t place = part / parts;
      const HeadBuffers buffers = BuffersOf(place);
      const Interval keys = KeysOfPart(part % parts);
      const bool forward = pass_ == Pass::kForward;
      PackKeysArgs args = {.tensor = k,
                           .kv_head = heads.begin + place,
                           .first = keys.begin,
                           .end = keys.end,
                           .keys = plan_.keys,
                           .panels = buffers.k_panels,
                           .strips = forward ? nullptr : buffers.k_strips,
                           .layout = plan_.qk_layout};
      simd_.pack_keys(args);
      args.tensor = v;
      args.panels = forward ? nullptr : buffers.v_panels;
      args.strips = forward ? buffers.v_strips : nullptr;
      args.layout = plan_.v_layout;
      simd_.pack_keys(args);
    });
  }

  void ForwardBatch(const ForwardTensors& tensors, Interval heads) {
    workers_.Run(heads.size() * plan_.tiles, [&](int64_t part, int thread) {
      const int64_t place = part / plan_.tiles;
      const int64_t kv_head = heads.begin + place;
      // From the last tile down: under causal masks the cheap ones then come last, which evens out
      // when threads finish.
      const int64_t tile = plan_.tiles - 1 - part % plan_.tiles;
      const HeadBuffers buffers = BuffersOf(place);
      const int64_t first_row = tile * plan_.shape.rows;
      simd_.forward_tile({.k_panels = buffers.k_panels,
                          .v_strips = buffers.v_strips,
                          .keys = plan_.keys,
                          .qk_dim = problem_.qk_head_dim,
                          .v_layout = plan_.v_layout,
                          .score = plan_.score,
                          .first_row = first_row,
                          .rows = std::min(plan_.shape.rows, plan_.rows - first_row),
                          .schedule = &ScheduleOf(kv_head),
                          .tile = tile,
                          .q = RowsOf(tensors.q, kv_head),
                          .out = RowsOf(tensors.out, kv_head),
                          .lse = RowsOf(tensors.lse, kv_head),
                          .scratch = ScratchOf(thread)});
    });
  }

  void BackwardBatch(const BackwardTensors& tensors, Interval heads) {
    workers_.Run(heads.size() * plan_.shares, [&](int64_t part, int thread) {
      const int64_t place = part / plan_.shares;
      const int64_t share = part % plan_.shares;
      const int64_t kv_head = heads.begin + place;
      const HeadBuffers buffers = BuffersOf(place);
      const TileShares& shares = SharesOf(kv_head);
      float* const dk_strips = DkStrips(buffers, share);
      float* const dv_strips = DvStrips(buffers, share);
      ClearKeys(plan_.qk_layout, shares.keys[static_cast<size_t>(share)], dk_strips);
      ClearKeys(plan_.v_layout, shares.keys[static_cast<size_t>(share)], dv_strips);
      const int64_t end = shares.first_tile[static_cast<size_t>(share) + 1];
      for (int64_t tile = shares.first_tile[static_cast<size_t>(share)]; tile < end; ++tile) {
        const int64_t first_row = tile * plan_.shape.rows;
        simd_.backward_tile({.k_panels = buffers.k_panels,
                             .k_strips = buffers.k_strips,
                             .v_panels = buffers.v_panels,
                             .keys = plan_.keys,
                             .qk_dim = problem_.qk_head_dim,
                             .v_dim = problem_.v_head_dim,
                             .qk_layout = plan_.qk_layout,
                             .v_layout = plan_.v_layout,
                             .score = plan_.score,
                             .first_row = first_row,
                             .rows = std::min(plan_.shape.rows, plan_.rows - first_row),
                             .schedule = &ScheduleOf(kv_head),
                             .tile = tile,
                             .q = RowsOf(tensors.q, kv_head),
                             .dout = RowsOf(tensors.dout, kv_head),
                             .dq = RowsOf(tensors.dq, kv_head),
                             .lse = RowsOf(tensors.lse, kv_head),
                             .delta = RowsOf(tensors.delta, kv_head),
                             .dq_factor = static_cast<float>(problem_.Scale()),
                             .accumulate = tensors.accumulate,
                             .dk_strips = dk_strips,
                             .dv_strips = dv_strips,
                             .scratch = ScratchOf(thread)});
      }
    });
  }

  void ClearKeys(const StripLayout& layout, Interval keys, float* strips) const {
    const int64_t end = std::min(keys.end, plan_.keys);
    for (int64_t strip = 0; strip < layout.strips(); ++strip) {
      std::fill(strips + layout.Offset(strip, keys.begin, plan_.keys),
                strips + layout.Offset(strip, std::max(keys.begin, end), plan_.keys), 0.0f);
    }
  }

  void UnpackBatch(const BackwardTensors& tensors, Interval heads) {
    const int64_t parts = PartsOfKeys();
    workers_.Run(heads.size() * parts, [&](int64_t part, int) {
      const int64_t place = part / parts;
      const int64_t kv_head = heads.begin + place;
      const Interval keys = KeysOfPart(part % parts);
      const HeadBuffers buffers = BuffersOf(place);
      const TileShares& shares = SharesOf(kv_head);
      // The shares that visited these keys; a share's range is in whole parts.
      std::array<const float*, TiledPlan::kMostShares> dk_sources, dv_sources;
      size_t sources = 0;
      for (int64_t share = 0; share < plan_.shares; ++share) {
        if (!shares.keys[static_cast<size_t>(share)].Contains(keys.begin)) continue;
        dk_sources[sources] = DkStrips(buffers, share);
        dv_sources[sources] = DvStrips(buffers, share);
        ++sources;
      }
      UnpackKeysArgs args = {.sources = std::span(dk_sources.data(), sources),
                             .keys = plan_.keys,
                             .layout = plan_.qk_layout,
                             .first = keys.begin,
                             .end = keys.end,
                             .factor = static_cast<float>(plan_.score.scale),
                             .accumulate = tensors.accumulate,
                             .tensor = tensors.dk,
                             .kv_head = kv_head};
      simd_.unpack_keys(args);
      args.sources = std::span(dv_sources.data(), sources);
      args.layout = plan_.v_layout;
      args.factor = 1;
      args.tensor = tensors.dv;
      simd_.unpack_keys(args);
    });
  }

  const Problem problem_;
  const Pass pass_;
  const TiledPlan plan_;
  const TiledSimd& simd_;
  const std::vector<TileSchedule> schedules_;
  std::vector<TileShares> shares_;  // backward
  const Memory workspace_;          // `batch` kv heads, then a scratch for each thread
  Workers& workers_;
};

class TiledKernel : public Kernel {
 public:
  TiledKernel(std::string name, const TiledSimd& simd, int64_t batch_bytes)
      : name_(std::move(name)), simd_(simd), batch_bytes_(batch_bytes) {}

  std::string name() const override { return name_; }
  std::string description() const override {
    return fmt::format("online softmax by tiles, vectorised and threaded ({})", simd_.name);
  }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }

  absl::Status Supports(const Problem& problem, Pass /*pass*/, const Options& /*options*/,
                        const DeviceInfo& device) const override {
    if (device.kind != DeviceKind::kCpu) {
      return absl::UnimplementedError(fmt::format("{} runs on CPUs only", name_));
    }
    if (!std::holds_alternative<Softmax>(problem.op)) {
      return absl::UnimplementedError(fmt::format("{} computes softmax attention only", name_));
    }
    return absl::OkStatus();
  }

  Traits GetTraits(const Options& /*options*/) const override { return kTraits; }

  absl::StatusOr<Requirements> GetRequirements(const Problem& problem, Pass pass,
                                               const Options& options,
                                               const DeviceInfo& device) const override {
    if (absl::Status status = Check(problem, pass, options, device); !status.ok()) return status;
    const TiledPlan plan(problem, pass, simd_, device.threads, batch_bytes_);
    Requirements requirements;
    requirements.workspace_bytes = plan.WorkspaceBytes(device.threads);
    for (const TileSchedule& schedule : MakeSchedules(problem, plan.shape)) {
      requirements.schedule_bytes += schedule.bytes();
    }
    return requirements;
  }

  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem& problem, Pass pass,
                                                          const Options& options,
                                                          Device& device) const override {
    if (absl::Status status = Check(problem, pass, options, device.info()); !status.ok()) {
      return status;
    }
    const int threads = device.workers()->threads();
    const TiledPlan plan(problem, pass, simd_, threads, batch_bytes_);
    absl::StatusOr<Memory> workspace = device.Allocate(plan.WorkspaceBytes(threads));
    if (!workspace.ok()) return workspace.status();
    return std::unique_ptr<PreparedKernel>(std::make_unique<PreparedTiled>(
        problem, pass, plan, simd_, MakeSchedules(problem, plan.shape), *std::move(workspace),
        *device.workers()));
  }

 private:
  absl::Status Check(const Problem& problem, Pass pass, const Options& options,
                     const DeviceInfo& device) const {
    if (absl::Status status = Validate(problem); !status.ok()) return status;
    return Supports(problem, pass, options, device);
  }

  const std::string name_;
  const TiledSimd& simd_;
  const int64_t batch_bytes_;
};

}  // namespace

std::unique_ptr<Kernel> MakeTiledKernel(std::string name, const TiledSimd& simd,
                                        int64_t batch_bytes) {
  return std::make_unique<TiledKernel>(std::move(name), simd, batch_bytes);
}

}  // namespace lcab
