#include "cp/executors/attend_calls.h"

#include <string>
#include <utility>

#include "fmt/format.h"

namespace lcab::cp {
namespace {

const AttendTarget* TargetOf(const Action& action) {
  if (const auto* attend = std::get_if<Attend>(&action)) return &attend->target;
  if (const auto* attend = std::get_if<AttendBackward>(&action)) return &attend->target;
  return nullptr;
}

bool SamePose(const Problem& a, const Problem& b) {
  return a.op == b.op && a.q_heads == b.q_heads && a.kv_heads == b.kv_heads &&
         a.qk_head_dim == b.qk_head_dim && a.v_head_dim == b.v_head_dim && a.dtype == b.dtype &&
         *a.mask == *b.mask;
}

// The plan must ask only for what the kernel can write and read.
absl::Status FitsTraits(const RankPlan& plan, const Action& action, DType dtype,
                        const Traits& traits) {
  const auto needs_float32 = [&](const View& view) {
    return dtype != DType::kFloat32 &&
           plan.buffers[static_cast<size_t>(view.buffer)].dtype == DType::kFloat32;
  };
  if (const auto* a = std::get_if<Attend>(&action)) {
    if (needs_float32(a->out) && !traits.float32_out) {
      return absl::UnimplementedError("it cannot write out in fp32, which the plan needs");
    }
  } else if (const auto* b = std::get_if<AttendBackward>(&action)) {
    if ((needs_float32(b->dq) || needs_float32(b->dk) || needs_float32(b->dv)) &&
        !traits.float32_gradients) {
      return absl::UnimplementedError("it cannot write gradients in fp32, which the plan needs");
    }
    if (b->delta.used() != traits.wants_delta) {
      return absl::UnimplementedError(traits.wants_delta ? "it wants delta, and the plan has none"
                                                         : "it wants out, and the plan has delta");
    }
  }
  return absl::OkStatus();
}

absl::Status AtPlace(const absl::Status& status, const RankPlan& plan, Pass pass, int step,
                     const Kernel& kernel) {
  return absl::Status(status.code(),
                      fmt::format("kernel {} at {}: {}", kernel.name(), Place(plan, pass, step),
                                  std::string(status.message())));
}

}  // namespace

Problem ProblemOf(const Problem& whole, const AttendTarget& target) {
  Problem problem = whole;
  problem.q_heads = target.q_heads.size();
  problem.kv_heads = target.kv_heads.size();
  problem.mask = std::make_shared<const Mask>(
      whole.mask->Restrict(target.q_tokens, target.k_tokens, target.kv_heads));
  return problem;
}

absl::StatusOr<AttendCalls> AttendCalls::Create(const RankPlan& plan, const Kernel& kernel,
                                                const Options& options, const DeviceInfo& device) {
  AttendCalls calls(kernel, options);
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (int i = 0; i < static_cast<int>(plan.steps(pass).size()); ++i) {
      if (absl::Status s = calls.AddStep(plan, pass, i, device); !s.ok()) return s;
    }
  }
  return calls;
}

absl::Status AttendCalls::AddStep(const RankPlan& plan, Pass pass, int step,
                                  const DeviceInfo& device) {
  std::vector<int>& of_step = pass == Pass::kForward ? forward_ : backward_;
  const Action& action = plan.steps(pass)[static_cast<size_t>(step)].action;
  const AttendTarget* target = TargetOf(action);
  of_step.push_back(-1);
  if (target == nullptr) return absl::OkStatus();

  const Traits traits = kernel_->GetTraits(options_);
  const DType dtype = plan.problems[static_cast<size_t>(target->problem)].dtype;
  absl::Status s = FitsTraits(plan, action, dtype, traits);
  if (!s.ok()) return AtPlace(s, plan, pass, step, *kernel_);

  Problem problem = ProblemOf(plan.problems[static_cast<size_t>(target->problem)], *target);
  const uint64_t digest = problem.mask->Digest();
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].pass == pass && calls_[i].mask_digest == digest &&
        SamePose(calls_[i].problem, problem)) {
      of_step.back() = static_cast<int>(i);
      return absl::OkStatus();
    }
  }
  s = kernel_->Supports(problem, pass, options_, device);
  if (!s.ok()) return AtPlace(s, plan, pass, step, *kernel_);
  const absl::StatusOr<Requirements> needs =
      kernel_->GetRequirements(problem, pass, options_, device);
  if (!needs.ok()) return AtPlace(needs.status(), plan, pass, step, *kernel_);
  requirements_.workspace_bytes += needs->workspace_bytes;
  requirements_.schedule_bytes += needs->schedule_bytes;
  of_step.back() = static_cast<int>(calls_.size());
  calls_.push_back({pass, std::move(problem), digest, nullptr});
  return absl::OkStatus();
}

absl::Status AttendCalls::Prepare(Device& device) {
  for (Call& call : calls_) {
    absl::StatusOr<std::unique_ptr<PreparedKernel>> kernel =
        kernel_->Prepare(call.problem, call.pass, options_, device);
    if (!kernel.ok()) return kernel.status();
    call.kernel = *std::move(kernel);
  }
  return absl::OkStatus();
}

}  // namespace lcab::cp
