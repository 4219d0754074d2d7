// cpu_tiled and cpu_reference against attention/reference.h: every mask, odd shapes, both passes,
// both dtypes, every instruction set.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/masks.h"
#include "attention/problem.h"
#include "attention/tokens.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_cases_for_test.h"
#include "kernels/cpu/tiled_kernel.h"
#include "kernels/cpu/tiled_plan.h"
#include "kernels/cpu/tiled_simd.h"
#include "kernels/testing/kernel_run.h"

namespace lcab {
namespace {

using ::testing::HasSubstr;

Mask NamedMask(const std::string& name, int64_t tokens, int64_t kv_heads = 1) {
  Options options;
  if (name.starts_with("sliding")) options["window"] = Value{int64_t{37}};
  return MakeMask(name, options, {tokens, tokens, kv_heads, /*seed=*/3, /*draw=*/0}).value();
}

Mask OneSlice(int64_t q_tokens, int64_t k_tokens, SliceKind kind) {
  const Slice slice = {0, q_tokens, 0, k_tokens, kind};
  return Mask::FromSlices(q_tokens, k_tokens, {&slice, 1}).value();
}

class CpuKernelsTest : public testing::Test {
 protected:
  void ExpectTruth(const std::vector<const Kernel*>& kernels, const Problem& problem,
                   const std::string& what, KernelRunOptions options = {}) {
    const KernelInputs inputs = KernelInputs::Random(problem, ++seed_);
    const KernelOutputs truth = ReferenceOutputs(problem, inputs, options.backward);
    options.forward = &truth;
    const bool rounded = options.output_dtype.value_or(problem.dtype) == DType::kBFloat16;
    for (const Kernel* kernel : kernels) {
      ExpectNear(RunKernel(*kernel, problem, inputs, *device_, options), truth, problem,
                 rounded ? kBFloat16Tolerance : kTolerance, kernel->name() + " " + what);
    }
  }
  void ExpectTruthOfTiled(const Problem& problem, const std::string& what) {
    ExpectTruth({&BuiltinKernel("cpu_tiled")}, problem, what);
  }
  void ExpectTruthOfBoth(const Problem& problem, const std::string& what,
                         const KernelRunOptions& options = {}) {
    ExpectTruth({&BuiltinKernel("cpu_tiled"), &BuiltinKernel("cpu_reference")}, problem, what,
                options);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 3}).value();
  uint64_t seed_ = 0;
};

TEST_F(CpuKernelsTest, EveryMaskIsComputedRight) {
  for (const MaskType& type : MaskTypes()) {
    if (type.name == "slices") continue;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectTruthOfBoth(MakeProblem(NamedMask(type.name, 139, 2), 2, 2, 16, 16, dtype),
                        fmt::format("{} {}", type.name, Name(dtype)));
    }
  }
}

TEST_F(CpuKernelsTest, EverySliceKindIsComputedRightAtOddAndUnequalLengths) {
  const std::vector<std::pair<int64_t, int64_t>> lengths = {
      {1, 1}, {1, 300}, {300, 1}, {3, 7}, {47, 49}, {48, 8}, {97, 131}, {200, 129}};
  for (const auto& [q_tokens, k_tokens] : lengths) {
    for (const SliceKind kind :
         {SliceKind::kFull, SliceKind::kCausal, SliceKind::kInvCausal, SliceKind::kBiCausal}) {
      ExpectTruthOfBoth(
          MakeProblem(OneSlice(q_tokens, k_tokens, kind), 2, 1, 8, 24),
          fmt::format("{} x {}, kind {}", q_tokens, k_tokens, static_cast<int>(kind)));
    }
  }
}

TEST_F(CpuKernelsTest, EveryHeadDimIsComputedRightAlsoUnequalOnes) {
  const std::vector<std::pair<int64_t, int64_t>> dims = {
      {1, 1},    {3, 5},     {16, 16},   {17, 15},   {40, 72},  {64, 64},
      {80, 112}, {128, 128}, {192, 128}, {100, 250}, {256, 256}};
  for (const auto& [qk_head_dim, v_head_dim] : dims) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectTruthOfTiled(
          MakeProblem(NamedMask("causal", 149), 2, 2, qk_head_dim, v_head_dim, dtype),
          fmt::format("dims {} {} {}", qk_head_dim, v_head_dim, Name(dtype)));
    }
  }
}

TEST_F(CpuKernelsTest, EveryGroupingOfHeadsIsComputedRight) {
  for (const auto& [q_heads, kv_heads] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 1}, {9, 3}, {8, 2}, {50, 1}, {4, 4}}) {
    ExpectTruthOfBoth(MakeProblem(NamedMask("causal_document", 70), q_heads, kv_heads, 16, 16),
                      fmt::format("heads {}:{}", q_heads, kv_heads));
  }
}

TEST_F(CpuKernelsTest, EveryInstructionSetComputesRight) {
  std::vector<std::unique_ptr<Kernel>> owned;
  std::vector<const Kernel*> kernels;
  for (const TiledSimd* simd : AllTiledSimd()) {
    owned.push_back(MakeTiledKernel(fmt::format("cpu_tiled on {}", simd->name), *simd));
    kernels.push_back(owned.back().get());
  }
  for (const char* mask : {"full", "causal", "global_sliding_window", "block_sparse_variable"}) {
    for (const double softcap : {0.0, 5.0}) {
      Problem problem = MakeProblem(NamedMask(mask, 211, 2), 4, 2, 24, 40);
      problem.op = Softmax{.softcap = softcap};
      ExpectTruth(kernels, problem, fmt::format("{} softcap {}", mask, softcap));
    }
    ExpectTruth(kernels, MakeProblem(NamedMask(mask, 97, 2), 4, 2, 24, 40, DType::kBFloat16),
                fmt::format("{} bf16", mask));
  }
}

TEST_F(CpuKernelsTest, ScaleAndSoftcapAreThoseOfTheProblem) {
  for (const std::optional<double> scale :
       {std::optional<double>(), std::optional<double>(0.7), std::optional<double>(-0.4),
        std::optional<double>(0.0)}) {
    for (const double softcap : {0.0, 0.5, 30.0}) {
      Problem problem = MakeProblem(NamedMask("causal", 120), 2, 1, 32, 32);
      problem.op = Softmax{scale, softcap};
      ExpectTruthOfBoth(problem, fmt::format("scale {} softcap {}", scale.value_or(99), softcap));
    }
  }
}

TEST_F(CpuKernelsTest, WhatARankSeesIsComputedRight) {
  const Mask whole = NamedMask("causal_document", 400);
  const TokenSet zigzag = TokenSet::Range(50, 100).Concatenate(TokenSet::Range(300, 350));
  for (const TokenSet& q : {zigzag, TokenSet::Strided(1, 4, 100)}) {
    for (const TokenSet& k : {TokenSet::Range(0, 120), zigzag, TokenSet::Strided(3, 4, 100)}) {
      ExpectTruthOfBoth(MakeProblem(whole.Restrict(q, k, {0, 1}), 2, 1, 16, 16), "restricted");
    }
  }
}

TEST_F(CpuKernelsTest, StridesAreFollowedAndNothingBetweenRowsIsTouched) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    ExpectTruthOfBoth(MakeProblem(NamedMask("causal", 75), 4, 2, 20, 12, dtype), "padded",
                      {.padding = 3});
  }
}

TEST_F(CpuKernelsTest, PartialResultsCanBeFp32WhateverTheInputs) {
  ExpectTruthOfBoth(MakeProblem(NamedMask("causal", 150), 4, 2, 32, 32, DType::kBFloat16),
                    "fp32 outputs", {.output_dtype = DType::kFloat32});
}

TEST_F(CpuKernelsTest, GradientsAreAddedToWhereAsked) {
  const Problem problem = MakeProblem(NamedMask("causal_document", 150), 4, 2, 32, 32);
  const KernelInputs inputs = KernelInputs::Random(problem, 1);
  KernelOutputs expected = ReferenceOutputs(problem, inputs);
  for (auto* gradient : {&expected.dq, &expected.dk, &expected.dv}) {
    for (float& value : *gradient) value += 3;
  }
  for (const char* name : {"cpu_tiled", "cpu_reference"}) {
    ExpectNear(RunKernel(BuiltinKernel(name), problem, inputs, *device_, {.accumulate_on = 3.0f}),
               expected, problem, kTolerance, name);
  }
}

TEST_F(CpuKernelsTest, ResultsAreBitForBitTheSameWhateverTheThreadsDo) {
  const Problem problem = MakeProblem(NamedMask("causal", 700), 2, 1, 32, 32);
  const KernelInputs inputs = KernelInputs::Random(problem, 1);
  const KernelOutputs first = RunKernel(BuiltinKernel("cpu_tiled"), problem, inputs, *device_);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const KernelOutputs again = RunKernel(BuiltinKernel("cpu_tiled"), problem, inputs, *device_);
    ASSERT_EQ(again.out, first.out);
    ASSERT_EQ(again.lse, first.lse);
    ASSERT_EQ(again.dq, first.dq);
    ASSERT_EQ(again.dk, first.dk);
    ASSERT_EQ(again.dv, first.dv);
  }
}

TEST_F(CpuKernelsTest, AnyNumberOfThreadsComputesRight) {
  for (const int threads : {1, 2, 5, 16}) {
    device_ = MakeCpuDevice({.threads = threads}).value();
    ExpectTruthOfTiled(MakeProblem(NamedMask("causal", 333), 3, 3, 16, 16),
                       fmt::format("{} threads", threads));
  }
}

TEST_F(CpuKernelsTest, KvHeadsThatExceedTheMemoryOfABatchAreComputedInTurn) {
  const Problem problem = MakeProblem(NamedMask("block_sparse_uniform", 300, 5), 10, 5, 16, 24);
  const TiledSimd& simd = BestTiledSimd();
  const auto two_heads = [&](Pass pass) {
    return 2 * TiledPlan(problem, pass, simd, /*threads=*/1).HeadFloats() *
           static_cast<int64_t>(sizeof(float));
  };
  for (const int threads : {1, 2, 3}) {
    device_ = MakeCpuDevice({.threads = threads}).value();
    for (const int64_t bytes :
         {int64_t{1}, two_heads(Pass::kForward), two_heads(Pass::kBackward)}) {
      const std::unique_ptr<Kernel> kernel = MakeTiledKernel("in turn", simd, bytes);
      ExpectTruth({kernel.get()}, problem, fmt::format("{} threads, {} bytes", threads, bytes));
    }
  }
  // The last batch has one head only.
  EXPECT_EQ(TiledPlan(problem, Pass::kForward, simd, 2, two_heads(Pass::kForward)).batch, 2);
  EXPECT_EQ(TiledPlan(problem, Pass::kBackward, simd, 2, two_heads(Pass::kBackward)).batch, 2);
  EXPECT_EQ(TiledPlan(problem, Pass::kBackward, simd, 2, 1).batch, 1);
}

TEST_F(CpuKernelsTest, TheBackwardPassUsesTheLseThatItIsGiven) {
  const Problem problem = MakeProblem(NamedMask("causal", 60), 2, 1, 16, 16);
  const KernelInputs inputs = KernelInputs::Random(problem, 1);
  const KernelOutputs truth = ReferenceOutputs(problem, inputs);
  // exp(score - (LSE + ln 2)) is half of P, and dV = P^T dO.
  KernelOutputs given = truth;
  for (float& lse : given.lse) lse += std::log(2.0f);
  for (const char* name : {"cpu_tiled", "cpu_reference"}) {
    const KernelOutputs outputs =
        RunKernel(BuiltinKernel(name), problem, inputs, *device_, {.forward = &given});
    for (size_t i = 0; i < truth.dv.size(); ++i) {
      ASSERT_NEAR(outputs.dv[i], truth.dv[i] / 2, 1e-5) << name << " " << i;
    }
  }
}

TEST_F(CpuKernelsTest, NanInInputsShowsInEveryRowThatSeesIt) {
  const Problem problem = MakeProblem(NamedMask("causal", 100), 1, 1, 16, 16);
  for (const char* name : {"cpu_tiled", "cpu_reference"}) {
    KernelInputs inputs = KernelInputs::Random(problem, 1);
    // All bits set, as in memory that was poisoned.
    inputs.k[60 * 16 + 5] = std::bit_cast<float>(0xFFFFFFFFU);
    const KernelOutputs outputs =
        RunKernel(BuiltinKernel(name), problem, inputs, *device_, {.backward = false});
    for (size_t row = 0; row < 100; ++row) {
      EXPECT_EQ(std::isnan(outputs.out[row * 16]), row >= 60) << name << " row " << row;
    }
  }
}

TEST_F(CpuKernelsTest, ScoresOfMinusInfinityNeverBecomeNan) {
  const Problem problem = MakeProblem(NamedMask("full", 100), 1, 1, 16, 16);
  KernelInputs inputs = KernelInputs::Random(problem, 1);
  // Row 7 has every score -inf; other rows have one such key.
  for (float& value : inputs.q) value = std::abs(value) + 0.1f;
  inputs.k[30 * 16 + 2] = -std::numeric_limits<float>::infinity();
  for (int channel = 0; channel < 16; ++channel) {
    inputs.q[7 * 16 + channel] = channel == 0 ? std::numeric_limits<float>::infinity() : 1.0f;
  }
  for (int key = 0; key < 100; ++key) inputs.k[key * 16] = -1 - std::abs(inputs.k[key * 16]);
  for (const char* name : {"cpu_tiled", "cpu_reference"}) {
    const KernelOutputs outputs =
        RunKernel(BuiltinKernel(name), problem, inputs, *device_, {.backward = false});
    for (size_t i = 0; i < outputs.out.size(); ++i) {
      ASSERT_TRUE(std::isfinite(outputs.out[i])) << name << " row " << i / 16;
    }
    EXPECT_EQ(outputs.lse[7], -std::numeric_limits<float>::infinity()) << name;
    EXPECT_EQ(outputs.out[7 * 16], 0) << name;
    EXPECT_TRUE(std::isfinite(outputs.lse[8])) << name;
  }
}

TEST_F(CpuKernelsTest, TensorsThatDoNotFitAreRefused) {
  const Problem problem = MakeProblem(NamedMask("full", 10), 2, 1, 8, 8);
  for (const char* name : {"cpu_tiled", "cpu_reference"}) {
    auto forward = BuiltinKernel(name).Prepare(problem, Pass::kForward, {}, *device_).value();
    std::vector<float> data(10 * 2 * 8);
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    const TensorView right = {bytes, DType::kFloat32, 10, 2, 8, 16, 8};
    const TensorView kv = {bytes, DType::kFloat32, 10, 1, 8, 8, 8};
    const RowStatView lse = {data.data(), 2, 10, 10};
    TensorView short_q = right;
    short_q.tokens = 9;
    absl::Status status = forward->Forward({short_q, kv, kv, right, lse}, device_->stream());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("Q is [9, 2, 8]"));
    TensorView rounded = kv;
    rounded.dtype = DType::kBFloat16;
    status = forward->Forward({right, rounded, kv, right, lse}, device_->stream());
    EXPECT_THAT(std::string(status.message()), HasSubstr("K is bf16"));
    TensorView nowhere = right;
    nowhere.data = nullptr;
    status = forward->Forward({right, kv, kv, nowhere, lse}, device_->stream());
    EXPECT_THAT(std::string(status.message()), HasSubstr("no data"));
  }
}

TEST_F(CpuKernelsTest, TooLittleMemoryIsSaidBeforeAnythingRuns) {
  const Problem problem = MakeProblem(NamedMask("full", 1000), 2, 2, 64, 64);
  const Kernel& kernel = BuiltinKernel("cpu_tiled");
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const int64_t bytes =
        kernel.GetRequirements(problem, pass, {}, device_->info()).value().workspace_bytes;
    auto exact = MakeCpuDevice({.threads = 3, .memory_bytes = bytes}).value();
    EXPECT_TRUE(kernel.Prepare(problem, pass, {}, *exact).ok());
    EXPECT_EQ(exact->peak_bytes(), bytes);
    auto small = MakeCpuDevice({.threads = 3, .memory_bytes = bytes - 1}).value();
    EXPECT_EQ(kernel.Prepare(problem, pass, {}, *small).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace lcab
