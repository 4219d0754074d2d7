// Windows, prefixes and blocks that kernels elsewhere got wrong at their edges, with known answers,
// for every CPU kernel.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention/masks.h"
#include "attention/problem.h"
#include "attention/reference.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_cases_for_test.h"

namespace lcab {
namespace {

class CpuMaskCasesTest : public CpuCasesTest {};
class LargeCpuMaskCasesTest : public LargeCpuCasesTest {};

// The reference kernel reads bf16 in one line, which other tests cover; here it would take long.
INSTANTIATE_TEST_SUITE_P(CpuKernels, CpuMaskCasesTest,
                         testing::Values(KernelAndDType{"cpu_tiled", DType::kFloat32},
                                         KernelAndDType{"cpu_tiled", DType::kBFloat16},
                                         KernelAndDType{"cpu_reference", DType::kFloat32}),
                         InstanceName);
INSTANTIATE_TEST_SUITE_P(CpuKernels, LargeCpuMaskCasesTest,
                         testing::Values(KernelAndDType{"cpu_tiled", DType::kBFloat16}),
                         InstanceName);

// Case M1: areas, and the rows at the edges of the window against fp64.
TEST_P(LargeCpuMaskCasesTest, AWindowIsADistanceNotACount) {
  struct Window {
    const char* mask;
    int64_t window, area;
  };
  for (const Window& window :
       {Window{"sliding_window_causal", 1024, 3'673'600},
        Window{"sliding_window_full", 1024, 7'343'104},
        Window{"sliding_window_causal", 4095, 8'390'656}, Window{"sliding_window_causal", 0, 4096},
        Window{"sliding_window_full", 0, 4096}}) {
    const Mask mask =
        MakeMask(window.mask, {{"window", Value{window.window}}}, {4096, 4096, 1, 0, 0}).value();
    ASSERT_EQ(mask.Area(0), window.area);
    const Problem problem = MakeProblem(mask, 1, 1, 16, 16, dtype());
    const KernelInputs inputs = KernelInputs::Random(problem, 1);
    const KernelOutputs outputs = Run(problem, inputs, {.backward = false});
    const Reference reference(problem, {inputs.q, inputs.k, inputs.v, {}, {}}, Precision::kExact);
    for (const int64_t row : {0, 1, 1023, 1024, 1025, 2000, 3071, 3072, 4095}) {
      const Reference::OutRow truth = reference.Out(0, row);
      EXPECT_NEAR(outputs.lse[static_cast<size_t>(row)], truth.lse, 1e-5);
      for (size_t channel = 0; channel < 16; ++channel) {
        const float out = outputs.out[static_cast<size_t>(row) * 16 + channel];
        EXPECT_NEAR(out, truth.out[channel], tolerance() * 4) << window.mask << " row " << row;
        if (window.window == 0) {
          EXPECT_EQ(out, inputs.v[static_cast<size_t>(row) * 16 + channel]);
        }
      }
    }
  }
}

// Case M1 in small: a window of w lets w + 1 keys in; none is the diagonal, the widest is causal.
TEST_P(CpuMaskCasesTest, AWindowAsWideAsTheSequenceIsCausal) {
  const auto outputs_of = [&](const char* mask, const Options& options) {
    const Problem problem =
        MakeProblem(MakeMask(mask, options, {200, 200, 1, 0, 0}).value(), 2, 1, 16, 16, dtype());
    return RunAndCheck(problem, KernelInputs::Random(problem, 1));
  };
  const KernelOutputs causal = outputs_of("causal", {});
  const KernelOutputs widest =
      outputs_of("sliding_window_causal", {{"window", Value{int64_t{199}}}});
  EXPECT_EQ(causal.out, widest.out);
  EXPECT_EQ(causal.dk, widest.dk);
  outputs_of("sliding_window_causal", {{"window", Value{int64_t{50}}}});
  outputs_of("sliding_window_full", {{"window", Value{int64_t{50}}}});
  outputs_of("sliding_window_full", {{"window", Value{int64_t{0}}}});
}

// Case M2.
TEST_P(CpuMaskCasesTest, APrefixOfPTokensIsSeenByAllAndNoMore) {
  for (const auto& [prefix, area] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 32'896}, {256, 65'536}, {100, 37'846}}) {
    const Mask mask =
        MakeMask("prefix_lm_causal", {{"prefix", Value{prefix}}}, {256, 256, 1, 0, 0}).value();
    ASSERT_EQ(mask.Area(0), area);
    const Problem problem = MakeProblem(mask, 2, 1, 16, 16, dtype());
    KernelInputs inputs = KernelInputs::Random(problem, 1);
    RunAndCheck(problem, inputs);
    if (prefix != 100) continue;
    // With Q = 0 the LSE is the logarithm of the number of keys.
    std::fill(inputs.q.begin(), inputs.q.end(), 0.0f);
    const KernelOutputs counted = Run(problem, inputs, {.backward = false});
    EXPECT_NEAR(counted.lse[0], std::log(100.0), 1e-6);
    EXPECT_NEAR(counted.lse[99], std::log(100.0), 1e-6);
    EXPECT_NEAR(counted.lse[100], std::log(101.0), 1e-6);
  }
}

// Case B1.
TEST_P(CpuMaskCasesTest, PaddingOfAShortLastBlockTakesNoPart) {
  BlockMap map;
  for (int64_t edge = 0; edge < 1000; edge += 128) map.row_edges.push_back(edge);
  map.row_edges.push_back(1000);
  map.column_edges = map.row_edges;
  map.selected.assign(64, 1);
  for (size_t column = 0; column < 7; ++column) map.selected[7 * 8 + column] = 0;
  const Mask mask =
      Mask::Create(1000, 1000, {{.bands = {{0, 1000, 0, 1000, {}, {}}}, .block_map = map}}).value();
  ASSERT_EQ(mask.Area(0, {896, 1000}, {0, 1000}), 10'816);
  const Problem problem = MakeProblem(mask, 1, 1, 64, 64, dtype());
  KernelInputs inputs = KernelInputs::Random(problem, 1);
  std::fill(inputs.q.begin(), inputs.q.end(), 0.0f);
  const KernelOutputs outputs = Run(problem, inputs, {.backward = false});
  for (size_t channel = 0; channel < 64; ++channel) {
    double mean = 0;
    for (size_t key = 896; key < 1000; ++key) mean += inputs.v[key * 64 + channel] / 104.0;
    for (size_t row = 896; row < 1000; ++row) {
      ASSERT_NEAR(outputs.lse[row], std::log(104.0), 1e-5);
      ASSERT_NEAR(outputs.out[row * 64 + channel], mean, dtype() == DType::kFloat32 ? 1e-6 : 2e-3);
    }
  }
}

// Case B2.
TEST_P(CpuMaskCasesTest, ABlockRowThatSelectsNothingDisturbsNoOther) {
  BlockMap first;
  first.row_edges = {0, 64, 128, 192, 256};
  first.column_edges = first.row_edges;
  first.selected = {1, 0, 0, 0,  //
                    1, 0, 0, 1,  //
                    0, 0, 0, 0,  //
                    0, 0, 1, 1};
  BlockMap second = first;
  second.selected = {0, 1, 1, 0,  //
                     0, 0, 0, 0,  //
                     1, 1, 1, 1,  //
                     1, 0, 0, 0};
  const std::vector<Band> all = {{0, 256, 0, 256, {}, {}}};
  const auto outputs_with = [&](const BlockMap& map) {
    const Problem problem = MakeProblem(Mask::Create(256, 256, {{all, map}, {all, second}}).value(),
                                        4, 2, 64, 64, dtype());
    return std::pair(problem, RunAndCheck(problem, KernelInputs::Random(problem, 1)));
  };
  const auto [problem, outputs] = outputs_with(first);
  ASSERT_EQ(problem.mask->Area(0), 20'480);
  for (int64_t row = 128; row < 192; ++row) {
    for (int64_t head = 0; head < 2; ++head) {
      ASSERT_EQ(outputs.lse[static_cast<size_t>(head * 256 + row)], kMinusInfinity);
      for (int64_t channel = 0; channel < 64; ++channel) {
        const auto place = static_cast<size_t>((row * 4 + head) * 64 + channel);
        ASSERT_EQ(outputs.out[place], 0);
        ASSERT_EQ(outputs.dq[place], 0);
      }
    }
  }
  for (size_t key = 64; key < 128; ++key) {
    for (size_t channel = 0; channel < 64; ++channel) {
      ASSERT_EQ(outputs.dk[key * 2 * 64 + channel], 0);
      ASSERT_EQ(outputs.dv[key * 2 * 64 + channel], 0);
    }
  }
  BlockMap fuller = first;
  fuller.selected[2 * 4 + 1] = 1;
  const auto [fuller_problem, others] = outputs_with(fuller);
  EXPECT_TRUE(std::equal(outputs.out.begin() + 192 * 4 * 64, outputs.out.end(),
                         others.out.begin() + 192 * 4 * 64));
}

}  // namespace
}  // namespace lcab
