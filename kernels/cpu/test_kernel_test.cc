#include "kernels/cpu/test_kernel.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/masks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_run.h"

namespace lcab {
namespace {

Problem MakeProblem(const std::string& mask_name, int64_t tokens) {
  Problem problem;
  problem.q_heads = 4;
  problem.kv_heads = 2;
  problem.qk_head_dim = 16;
  problem.v_head_dim = 16;
  Options options;
  if (mask_name.starts_with("sliding")) options["window"] = Value{int64_t{9}};
  problem.mask = std::make_shared<const Mask>(
      MakeMask(mask_name, options, {tokens, tokens, 2, /*seed=*/1, /*draw=*/0}).value());
  return problem;
}

// Tensors that live from call to call, as a trial's do.
class TestKernelTest : public testing::Test {
 protected:
  void Use(const std::string& kernel, const Problem& problem, const Options& given = {}) {
    problem_ = problem;
    inputs_ = KernelInputs::Random(problem, 1);
    outputs_.out.assign(inputs_.dout.size(), NAN);
    outputs_.lse.assign(static_cast<size_t>(problem.q_heads * problem.q_tokens()), NAN);
    const Kernel& found = BuiltinKernel(kernel);
    const Options options = ResolveOptions(kernel, given, found.parameters()).value();
    auto prepared = found.Prepare(problem, Pass::kForward, options, *device_);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    prepared_ = *std::move(prepared);
  }

  TensorView View(std::vector<float>& values, int64_t heads, int64_t tokens) {
    return {reinterpret_cast<std::byte*>(values.data()),
            DType::kFloat32,
            tokens,
            heads,
            16,
            heads * 16,
            16};
  }

  absl::Status Forward() {
    return prepared_->Forward({View(inputs_.q, 4, problem_.q_tokens()),
                               View(inputs_.k, 2, problem_.k_tokens()),
                               View(inputs_.v, 2, problem_.k_tokens()),
                               View(outputs_.out, 4, problem_.q_tokens()),
                               {outputs_.lse.data(), 4, problem_.q_tokens(), problem_.q_tokens()}},
                              device_->stream());
  }

  KernelOutputs Expected() {
    return RunKernel(BuiltinKernel("cpu_tiled"), problem_, inputs_, *device_, {.backward = false});
  }

  // Rows (token, head) of out that are not bit for bit those of cpu_tiled.
  std::vector<std::pair<int64_t, int64_t>> WrongRows(const KernelOutputs& expected) const {
    std::vector<std::pair<int64_t, int64_t>> wrong;
    for (size_t row = 0; row < expected.out.size() / 16; ++row) {
      if (!std::equal(expected.out.begin() + static_cast<int64_t>(row) * 16,
                      expected.out.begin() + static_cast<int64_t>(row + 1) * 16,
                      outputs_.out.begin() + static_cast<int64_t>(row) * 16)) {
        wrong.emplace_back(row / 4, row % 4);
      }
    }
    return wrong;
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
  Problem problem_;
  KernelInputs inputs_;
  KernelOutputs outputs_;
  std::unique_ptr<PreparedKernel> prepared_;
};

TEST_F(TestKernelTest, TheyStandInNoList) {
  for (const Kernel* kernel : BuiltinKernels().List()) {
    EXPECT_FALSE(kernel->name().starts_with("test_")) << kernel->name();
  }
  EXPECT_TRUE(BuiltinKernels().Find("test_crash").ok());
}

TEST_F(TestKernelTest, SkippingATileSpoilsExactlyTheLastRows) {
  Use("test_skip_tile", MakeProblem("causal", 1100));
  ASSERT_TRUE(Forward().ok());
  const auto wrong = WrongRows(Expected());
  // 1100 = 17 * 64 + 12: the last tile of queries has 12 rows, of 4 heads.
  ASSERT_EQ(wrong.size(), 12U * 4);
  EXPECT_EQ(wrong.front().first, 1088);
}

TEST_F(TestKernelTest, AWindowOneKeyTooWideSpoilsEveryRowThatHasSuchAKey) {
  Use("test_window_wide", MakeProblem("sliding_window_causal", 100));
  ASSERT_TRUE(Forward().ok());
  const auto wrong = WrongRows(Expected());
  // Row 10 is the first with a key at distance 10.
  ASSERT_EQ(wrong.size(), 90U * 4);
  EXPECT_EQ(wrong.front().first, 10);
  Problem full = MakeProblem("full", 100);
  EXPECT_EQ(
      BuiltinKernel("test_window_wide").Supports(full, Pass::kForward, {}, device_->info()).code(),
      absl::StatusCode::kUnimplemented);
}

TEST_F(TestKernelTest, TheLastRowStaysUnwritten) {
  Use("test_last_row", MakeProblem("causal", 50));
  ASSERT_TRUE(Forward().ok());
  const auto wrong = WrongRows(Expected());
  ASSERT_EQ(wrong.size(), 4U);
  EXPECT_EQ(wrong.front().first, 49);
  EXPECT_TRUE(std::isnan(outputs_.out.back()));
}

TEST_F(TestKernelTest, TheSecondCallReplaysTheFirst) {
  Use("test_replay", MakeProblem("causal", 50));
  ASSERT_TRUE(Forward().ok());
  EXPECT_TRUE(WrongRows(Expected()).empty());
  const KernelOutputs first = outputs_;
  inputs_ = KernelInputs::Random(problem_, 2);
  std::fill(outputs_.out.begin(), outputs_.out.end(), NAN);
  std::fill(outputs_.lse.begin(), outputs_.lse.end(), NAN);
  ASSERT_TRUE(Forward().ok());
  EXPECT_EQ(outputs_.out, first.out);
  EXPECT_EQ(outputs_.lse, first.lse);
}

TEST_F(TestKernelTest, TwoHeadsChangePlaces) {
  Use("test_wrong_head", MakeProblem("causal", 50));
  ASSERT_TRUE(Forward().ok());
  const auto wrong = WrongRows(Expected());
  ASSERT_EQ(wrong.size(), 100U);
  EXPECT_EQ(wrong[0].second, 0);
  EXPECT_EQ(wrong[1].second, 3);
}

TEST_F(TestKernelTest, AnInputIsChanged) {
  Use("test_mutates_input", MakeProblem("causal", 50));
  const std::vector<float> before = inputs_.q;
  const KernelOutputs expected = Expected();
  ASSERT_TRUE(Forward().ok());
  EXPECT_TRUE(WrongRows(expected).empty());
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] == inputs_.q[i] ? 0 : 1;
  EXPECT_EQ(changed, 1);
}

TEST_F(TestKernelTest, TheSilentOneWritesNothing) {
  Use("test_silent", MakeProblem("causal", 50));
  ASSERT_TRUE(Forward().ok());
  EXPECT_TRUE(std::all_of(outputs_.out.begin(), outputs_.out.end(),
                          [](float value) { return std::isnan(value); }));
}

TEST_F(TestKernelTest, MemoryEndsWhereItIsToldTo) {
  Use("test_memory", MakeProblem("causal", 50),
      {{"most_bytes", Value{int64_t{32} << 20}}, {"call", Value{int64_t{2}}}});
  EXPECT_TRUE(Forward().ok());
  EXPECT_EQ(Forward().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Forward().ok());
}

TEST_F(TestKernelTest, SlowOnesTakeTheirTime) {
  const auto start = std::chrono::steady_clock::now();
  Use("test_prepare_slow", MakeProblem("causal", 50), {{"delay_ms", Value{int64_t{5}}}});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(5));
  EXPECT_TRUE(Forward().ok());
  Use("test_slow", MakeProblem("causal", 50), {{"delay_ms", Value{int64_t{5}}}});
  const auto call = std::chrono::steady_clock::now();
  EXPECT_TRUE(Forward().ok());
  EXPECT_GE(std::chrono::steady_clock::now() - call, std::chrono::milliseconds(5));
  EXPECT_TRUE(WrongRows(Expected()).empty());
}

TEST_F(TestKernelTest, OneLongLineIsPrinted) {
  Use("test_prints", MakeProblem("causal", 50), {{"bytes", Value{int64_t{200'000}}}});
  testing::internal::CaptureStderr();
  ASSERT_TRUE(Forward().ok());
  ASSERT_TRUE(Forward().ok());
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed.size(), 200'000U);
  EXPECT_EQ(printed.find('\n'), printed.size() - 1);
}

TEST_F(TestKernelTest, TheUnsupportedOneSaysSo) {
  const absl::Status status =
      BuiltinKernel("test_unsupported")
          .Supports(MakeProblem("causal", 50), Pass::kForward, {}, device_->info());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
}

// The device's threads would not be there in a forked child: a device of one thread has none.
class TestKernelDeathTest : public TestKernelTest {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    device_ = MakeCpuDevice({.threads = 1}).value();
  }
};

TEST_F(TestKernelDeathTest, CrashAndAbortEndTheProcessWithTheirSignals) {
  Use("test_crash", MakeProblem("causal", 50));
  EXPECT_EXIT({ (void)Forward(); }, testing::KilledBySignal(SIGSEGV), "");
  Use("test_abort", MakeProblem("causal", 50), {{"call", Value{int64_t{2}}}});
  ASSERT_TRUE(Forward().ok());
  EXPECT_EXIT({ (void)Forward(); }, testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace lcab
