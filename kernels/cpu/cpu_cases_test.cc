// Failures that users of attention kernels have reported elsewhere, as small inputs with known
// answers, for every CPU kernel. Those of masks are in cpu_mask_cases_test.cc.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention/masks.h"
#include "attention/problem.h"
#include "attention/reference.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_cases_for_test.h"

namespace lcab {
namespace {

// The reference kernel reads bf16 in one line, which other tests cover; here it would take long.
INSTANTIATE_TEST_SUITE_P(CpuKernels, CpuCasesTest,
                         testing::Values(KernelAndDType{"cpu_tiled", DType::kFloat32},
                                         KernelAndDType{"cpu_tiled", DType::kBFloat16},
                                         KernelAndDType{"cpu_reference", DType::kFloat32}),
                         InstanceName);
INSTANTIATE_TEST_SUITE_P(CpuKernels, LargeCpuCasesTest,
                         testing::Values(KernelAndDType{"cpu_tiled", DType::kBFloat16}),
                         InstanceName);

// Case N1.
TEST_P(CpuCasesTest, RowsThatSeeNothingHaveAnLseOfMinusInfinity) {
  const Problem problem =
      MakeProblem(Slices(160, 96, {{0, 160, 0, 96, SliceKind::kCausal}}), 8, 2, 128, 128, dtype());
  ASSERT_EQ(problem.mask->Area(0), 4656);
  const KernelInputs inputs = KernelInputs::Random(problem, 1);
  const KernelOutputs outputs = RunAndCheck(problem, inputs);
  ExpectNoKeyRows(problem, outputs, {0, 64});
  // Row 64 sees key 0 alone.
  for (int64_t head = 0; head < 8; ++head) {
    for (int64_t channel = 0; channel < 128; ++channel) {
      EXPECT_EQ(outputs.out[static_cast<size_t>((64 * 8 + head) * 128 + channel)],
                inputs.v[static_cast<size_t>(head / 4 * 128 + channel)]);
    }
  }
}

// Case N2.
TEST_P(CpuCasesTest, HonestScoresFarBelowZeroAreNotTakenForMasked) {
  const Problem problem =
      MakeProblem(Slices(1, 128, {{0, 1, 0, 128, SliceKind::kFull}}), 1, 1, 64, 64, dtype());
  KernelInputs inputs = KernelInputs::Random(problem, 1);
  std::fill(inputs.q.begin(), inputs.q.end(), 128.0f);
  std::fill(inputs.k.begin(), inputs.k.end(), -128.0f);
  const KernelOutputs outputs = Run(problem, inputs, {.backward = false});
  EXPECT_NEAR(outputs.lse[0], -131072 + std::log(128.0), 0.02);
  for (size_t channel = 0; channel < 64; ++channel) {
    double mean = 0;
    for (size_t key = 0; key < 128; ++key) mean += inputs.v[key * 64 + channel] / 128.0;
    EXPECT_NEAR(outputs.out[channel], mean, dtype() == DType::kFloat32 ? 1e-6 : 2e-3);
  }
}

// Q and K of -1, 0 and 1, so that products are exact in fp32 and what is left is how a kernel
// scales, caps and exponentiates, over the range that suites may ask for. (Where the cap itself is
// beyond 1e3 logits are known to 1e-3 at best; measurement/tolerance_test.cc has those.)
TEST_P(CpuCasesTest, ScaleAndSoftcapMayBeVerySmallAndVeryLarge) {
  for (const double softcap : {0.0, 1e-3, 1.0, 50.0, 1e4}) {
    for (const double scale : {1e-6, 1e-3, 0.125, 1.0, 30.0, 1e3}) {
      if (softcap == 1e4 && scale > 1) continue;
      Problem problem =
          MakeProblem(Slices(70, 70, {{0, 70, 0, 70, SliceKind::kCausal}}), 2, 1, 64, 32, dtype());
      problem.op = Softmax{.scale = scale, .softcap = softcap};
      KernelInputs inputs = KernelInputs::Random(problem, 1);
      for (std::vector<float>* tensor : {&inputs.q, &inputs.k}) {
        for (float& value : *tensor) value = std::clamp(std::round(value), -1.0f, 1.0f);
      }
      const KernelOutputs truth = ReferenceOutputs(problem, inputs);
      // Gradients are the scale times what cancels where one key has all the weight.
      const bool backward = scale <= 1;
      KernelOutputs expected = truth;
      if (!backward) expected.dq = expected.dk = expected.dv = {};
      const KernelOutputs outputs = Run(problem, inputs, {.backward = backward, .forward = &truth});
      ExpectNear(outputs, expected, problem, tolerance(),
                 fmt::format("{} scale {} softcap {}", kernel().name(), scale, softcap));
    }
  }
}

// Case S1.
TEST_P(CpuCasesTest, DocumentsWithoutQueriesOrWithoutKeysDisturbNobody) {
  for (const int64_t head_dim : {64, 256}) {
    // Pair by pair it would take minutes under a sanitizer.
    if (head_dim == 256 && kernel().name() == "cpu_reference") continue;
    const Mask mask = MakeMask("full_document",
                               {{"query_lengths", IntegerList({0, 300, 77, 0})},
                                {"key_lengths", IntegerList({130, 300, 0, 64})}},
                               {377, 494, 1, 0, 0})
                          .value();
    ASSERT_EQ(mask.Area(0), 90'000);
    const Problem problem = MakeProblem(mask, 4, 1, head_dim, head_dim, dtype());
    const KernelInputs inputs = KernelInputs::Random(problem, 1);
    const KernelOutputs outputs = Run(problem, inputs);
    ExpectNoKeyRows(problem, outputs, {300, 377});
    ExpectUnseenKeys(problem, outputs, {0, 130});
    ExpectUnseenKeys(problem, outputs, {430, 494});

    const Problem alone = MakeProblem(Slices(300, 300, {{0, 300, 0, 300, SliceKind::kFull}}), 4, 1,
                                      head_dim, head_dim, dtype());
    const auto part = [](const std::vector<float>& values, int64_t begin, int64_t end) {
      return std::vector<float>(values.begin() + begin, values.begin() + end);
    };
    const int64_t row = 4 * head_dim;
    KernelOutputs expected = Run(alone, {.q = part(inputs.q, 0, 300 * row),
                                         .k = part(inputs.k, 130 * head_dim, 430 * head_dim),
                                         .v = part(inputs.v, 130 * head_dim, 430 * head_dim),
                                         .dout = part(inputs.dout, 0, 300 * row)});
    KernelOutputs document = {.out = part(outputs.out, 0, 300 * row),
                              .lse = {},
                              .dq = part(outputs.dq, 0, 300 * row),
                              .dk = part(outputs.dk, 130 * head_dim, 430 * head_dim),
                              .dv = part(outputs.dv, 130 * head_dim, 430 * head_dim)};
    for (int64_t head = 0; head < 4; ++head) {
      const std::vector<float> lse = part(outputs.lse, head * 377, head * 377 + 300);
      document.lse.insert(document.lse.end(), lse.begin(), lse.end());
    }
    // Keys lie elsewhere in tiles, so sums run in another order.
    ExpectNear(document, expected, alone, 2 * tolerance(), kernel().name());
  }
}

// Case S1, last part.
TEST_P(CpuCasesTest, NoQueriesOrNoKeysAtAllReturn) {
  for (const auto& [q_tokens, k_tokens] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 70}, {70, 0}, {0, 0}}) {
    const Problem problem = MakeProblem(Slices(q_tokens, k_tokens, {}), 4, 2, 64, 64, dtype());
    const KernelOutputs outputs = Run(problem, KernelInputs::Random(problem, 1));
    ExpectNoKeyRows(problem, outputs, {0, q_tokens});
    ExpectUnseenKeys(problem, outputs, {0, k_tokens});
  }
}

// Case S2.
TEST_P(CpuCasesTest, DocumentsOfOneTokenCopyTheirValue) {
  std::vector<int64_t> lengths(37, 1);
  lengths.push_back(219);
  const Mask mask =
      MakeMask("causal_document", {{"lengths", IntegerList(lengths)}}, {256, 256, 3, 0, 0}).value();
  ASSERT_EQ(mask.Area(0), 24'127);
  const Problem problem = MakeProblem(mask, 9, 3, 64, 64, dtype());
  const KernelInputs inputs = KernelInputs::Random(problem, 1);
  const KernelOutputs outputs = RunAndCheck(problem, inputs);
  // Of dQ and dK, P (dP - delta) with dP = delta: what is left is rounding of terms near 10.
  const double rounding = dtype() == DType::kFloat32 ? 1e-5 : 0.05;
  for (size_t token = 0; token < 37; ++token) {
    for (size_t head = 0; head < 9; ++head) {
      double score = 0;
      for (size_t channel = 0; channel < 64; ++channel) {
        const size_t q = (token * 9 + head) * 64 + channel;
        const size_t kv = (token * 3 + head / 3) * 64 + channel;
        ASSERT_EQ(outputs.out[q], inputs.v[kv]) << token;
        EXPECT_NEAR(outputs.dq[q], 0, rounding);
        score += static_cast<double>(inputs.q[q]) * inputs.k[kv] / 8;
      }
      EXPECT_NEAR(outputs.lse[head * 256 + token], score, 1e-5);
    }
    for (size_t head = 0; head < 3; ++head) {
      for (size_t channel = 0; channel < 64; ++channel) {
        double sum = 0;
        for (size_t member = 0; member < 3; ++member) {
          sum += inputs.dout[(token * 9 + head * 3 + member) * 64 + channel];
        }
        const size_t kv = (token * 3 + head) * 64 + channel;
        EXPECT_NEAR(outputs.dv[kv], sum, tolerance() * (1 + std::abs(sum)));
        EXPECT_NEAR(outputs.dk[kv], 0, rounding);
      }
    }
  }
}

// Case S4, on one device; two of sixteen heads, which is what a row's result depends on.
TEST_P(LargeCpuCasesTest, ValuesMayHaveAnotherHeadDimThanKeys) {
  const Mask mask = MakeMask("causal", {}, {2048, 2048, 1, 0, 0}).value();
  const Problem problem = MakeProblem(mask, 16, 4, 192, 128, dtype());
  const KernelInputs inputs = KernelInputs::Random(problem, 1);
  const KernelOutputs outputs = Run(problem, inputs);
  Reference reference(problem, {inputs.q, inputs.k, inputs.v, inputs.dout, {}}, Precision::kExact);
  for (const int64_t head : {0, 15}) {
    for (const int64_t row : {0, 1, 47, 48, 127, 128, 1023, 1500, 2047}) {
      const Reference::OutRow truth = reference.Out(head, row);
      EXPECT_NEAR(outputs.lse[static_cast<size_t>(head * 2048 + row)], truth.lse, 1e-4);
      reference.PrepareRows(head, {row, row + 1});
      const std::vector<double> dq = reference.DQ(head, row);
      for (size_t channel = 0; channel < 192; ++channel) {
        if (channel < 128) {
          EXPECT_NEAR(outputs.out[static_cast<size_t>(row * 16 + head) * 128 + channel],
                      truth.out[channel], tolerance() * 4);
        }
        EXPECT_NEAR(outputs.dq[static_cast<size_t>(row * 16 + head) * 192 + channel], dq[channel],
                    tolerance() * 4);
      }
    }
  }
}

// Case G2, with two of its eight heads: no head's result depends on another's.
TEST_P(CpuCasesTest, RowsInNoDocumentAreWrittenAndSecondRunsShowNothingOfTheFirst) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{200, 248}, std::vector<int64_t>{31, 417}}) {
    std::vector<Slice> slices;
    int64_t begin = 0;
    for (const int64_t length : lengths) {
      slices.push_back({begin, begin + length, begin, begin + length, SliceKind::kCausal});
      begin += length;
    }
    const Problem problem = MakeProblem(Slices(512, 512, slices), 2, 2, 128, 128, dtype());
    const KernelInputs inputs = KernelInputs::Random(problem, 1);
    const KernelOutputs outputs = RunAndCheck(problem, inputs);
    ExpectNoKeyRows(problem, outputs, {448, 512});
    ExpectUnseenKeys(problem, outputs, {448, 512});
    for (const std::vector<float>* tensor : {&outputs.out, &outputs.dq, &outputs.dk, &outputs.dv}) {
      EXPECT_TRUE(std::all_of(tensor->begin(), tensor->end(),
                              [](float value) { return std::isfinite(value); }));
    }
  }
}

}  // namespace
}  // namespace lcab
