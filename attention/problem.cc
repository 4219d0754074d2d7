// Names, extents and the checks that every problem passes before anything is built on it.

#include "attention/problem.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "attention/softmax_range.h"
#include "fmt/format.h"

namespace lcab {
namespace {

// a * b, or nothing when it does not fit.
std::optional<int64_t> Product(std::optional<int64_t> a, int64_t b) {
  int64_t product = 0;
  if (!a || __builtin_mul_overflow(*a, b, &product)) return std::nullopt;
  return product;
}

// Inputs have 16 bits of their counter for the head (input_values.h). So bounded, and with the
// tokens and dims that there may be, the bytes of every tensor fit 63 bits.
constexpr int64_t kMostHeads = int64_t{1} << 16;
constexpr int64_t kMostHeadDim = 1024;
static_assert(Mask::kMaxTokens <=
              std::numeric_limits<int64_t>::max() / kMostHeads / kMostHeadDim / int64_t{8});

absl::Status CheckHeads(const Problem& problem) {
  for (const int64_t heads : {problem.q_heads, problem.kv_heads}) {
    if (heads < 1 || heads > kMostHeads) {
      return absl::InvalidArgumentError(
          fmt::format("q_heads is {} and kv_heads is {}; both must be in 1..{}", problem.q_heads,
                      problem.kv_heads, kMostHeads));
    }
  }
  if (problem.q_heads % problem.kv_heads != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "q_heads {} is not a multiple of kv_heads {}: each kv head serves a group of "
        "query heads of one size; {} or {} query heads would fit",
        problem.q_heads, problem.kv_heads,
        problem.q_heads < problem.kv_heads ? problem.kv_heads
                                           : problem.q_heads / problem.kv_heads * problem.kv_heads,
        (problem.q_heads / problem.kv_heads + 1) * problem.kv_heads));
  }
  return absl::OkStatus();
}

bool IsWithin(double value, double least, double most) {
  return value >= least && value <= most;  // false of NaN
}

// The FLOPs of the backward pass, which is the dearer one, must fit int64.
absl::Status CheckFlops(const Problem& problem) {
  const int64_t flops_a_pair = 2 * (3 * problem.qk_head_dim + 2 * problem.v_head_dim);
  int64_t total = 0;
  for (int64_t head = 0; head < problem.kv_heads; ++head) {
    const std::optional<int64_t> flops =
        Product(Product(problem.mask->Area(problem.mask->GroupOf(head)), problem.heads_per_kv()),
                flops_a_pair);
    if (!flops || __builtin_add_overflow(total, *flops, &total)) {
      return absl::InvalidArgumentError(
          "the problem has more floating-point operations than 63 bits can count; use fewer "
          "tokens or heads");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(Tensor tensor) {
  constexpr std::array<std::string_view, 11> kNames = {"Q",    "K",     "V",  "out", "LSE", "dOut",
                                                       "dLSE", "delta", "dQ", "dK",  "dV"};
  return kNames[static_cast<size_t>(tensor)];
}

double Problem::Scale() const {
  const auto& softmax = std::get<Softmax>(op);
  return softmax.scale ? *softmax.scale : 1.0 / std::sqrt(static_cast<double>(qk_head_dim));
}

Problem::Extent Problem::ExtentOf(Tensor tensor) const {
  switch (tensor) {
    case Tensor::kQ:
    case Tensor::kDQ:
      return {q_tokens(), q_heads, qk_head_dim};
    case Tensor::kOut:
    case Tensor::kDOut:
      return {q_tokens(), q_heads, v_head_dim};
    case Tensor::kLse:
    case Tensor::kDLse:
    case Tensor::kDelta:
      return {q_tokens(), q_heads, 1};
    case Tensor::kK:
    case Tensor::kDK:
      return {k_tokens(), kv_heads, qk_head_dim};
    case Tensor::kV:
    case Tensor::kDV:
      return {k_tokens(), kv_heads, v_head_dim};
  }
  return {};
}

absl::Status Validate(const Softmax& softmax) {
  const double scale = softmax.scale.value_or(1);
  if (scale != 0 && !IsWithin(std::abs(scale), kLeastScale, kMostScale)) {
    return absl::InvalidArgumentError(fmt::format(
        "scale is {}; it must be 0, or from {} to {} (or minus that): larger logits are "
        "mostly rounding in fp32",
        scale, kLeastScale, kMostScale));
  }
  if (softmax.softcap != 0 && !IsWithin(softmax.softcap, kLeastSoftcap, kMostSoftcap)) {
    return absl::InvalidArgumentError(
        fmt::format("softcap is {}; it must be 0 (none), or from {} to {}: under a smaller one "
                    "gradients are mostly rounding in fp32, and a larger one does nothing",
                    softmax.softcap, kLeastSoftcap, kMostSoftcap));
  }
  return absl::OkStatus();
}

absl::Status Validate(const Problem& problem) {
  if (absl::Status status = CheckHeads(problem); !status.ok()) return status;
  for (const int64_t dim : {problem.qk_head_dim, problem.v_head_dim}) {
    if (dim < 1 || dim > kMostHeadDim) {
      return absl::InvalidArgumentError(
          fmt::format("head dims are {} (Q and K) and {} (V); both must be in 1..{}",
                      problem.qk_head_dim, problem.v_head_dim, kMostHeadDim));
    }
  }
  if (absl::Status status = Validate(std::get<Softmax>(problem.op)); !status.ok()) {
    return status;
  }
  if (problem.mask == nullptr) return absl::InvalidArgumentError("the problem has no mask");
  if (problem.mask->groups() != 1 && problem.mask->groups() != problem.kv_heads) {
    return absl::InvalidArgumentError(
        fmt::format("the mask has {} groups of heads; it must have 1 or one for each of the {} kv "
                    "heads",
                    problem.mask->groups(), problem.kv_heads));
  }
  return CheckFlops(problem);
}

}  // namespace lcab
