// Failures that users of attention kernels have reported elsewhere, as small inputs with known
// answers, for every CPU kernel.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/masks.h"
#include "attention/problem.h"
#include "attention/reference.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_run.h"

namespace lcab {
namespace {

constexpr double kTolerance = 5e-6;
constexpr double kBFloat16Tolerance = 4e-3;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Problem MakeProblem(Mask mask, int64_t q_heads, int64_t kv_heads, int64_t qk_head_dim,
                    int64_t v_head_dim, DType dtype) {
  Problem problem;
  problem.q_heads = q_heads;
  problem.kv_heads = kv_heads;
  problem.qk_head_dim = qk_head_dim;
  problem.v_head_dim = v_head_dim;
  problem.dtype = dtype;
  problem.mask = std::make_shared<const Mask>(std::move(mask));
  return problem;
}

Mask Slices(int64_t q_tokens, int64_t k_tokens, const std::vector<Slice>& slices) {
  return Mask::FromSlices(q_tokens, k_tokens, slices).value();
}

Value IntegerList(const std::vector<int64_t>& integers) {
  Value::List list;
  for (const int64_t integer : integers) list.push_back(Value{integer});
  return Value{list};
}

struct KernelAndDType {
  std::string kernel;
  DType dtype;
};

class CpuCasesTest : public testing::TestWithParam<KernelAndDType> {
 protected:
  const Kernel& kernel() const { return BuiltinKernel(GetParam().kernel); }
  DType dtype() const { return GetParam().dtype; }
  double tolerance() const { return dtype() == DType::kFloat32 ? kTolerance : kBFloat16Tolerance; }

  KernelOutputs Run(const Problem& problem, const KernelInputs& inputs,
                    const KernelRunOptions& options = {}) {
    return RunKernel(kernel(), problem, inputs, *device_, options);
  }
  // Runs the kernel and holds everything that it writes against fp64.
  KernelOutputs RunAndCheck(const Problem& problem, const KernelInputs& inputs) {
    const KernelOutputs truth = ReferenceOutputs(problem, inputs);
    KernelOutputs outputs = Run(problem, inputs, {.forward = &truth});
    ExpectNear(outputs, truth, problem, tolerance(), kernel().name());
    return outputs;
  }

  // All channels of rows (tokens, all heads) [rows.begin, rows.end) are exactly 0.
  static void ExpectZeroRows(const std::vector<float>& values, int64_t floats_of_token,
                             Interval rows, const std::string& what) {
    for (int64_t i = rows.begin * floats_of_token; i < rows.end * floats_of_token; ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], 0.0f) << what << " token " << i / floats_of_token;
    }
  }
  static void ExpectNoKeyRows(const Problem& problem, const KernelOutputs& outputs, Interval rows) {
    ExpectZeroRows(outputs.out, problem.q_heads * problem.v_head_dim, rows, "out");
    ExpectZeroRows(outputs.dq, problem.q_heads * problem.qk_head_dim, rows, "dQ");
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        ASSERT_EQ(outputs.lse[static_cast<size_t>(head * problem.q_tokens() + row)], kMinusInfinity)
            << "row " << row;
      }
    }
  }
  static void ExpectUnseenKeys(const Problem& problem, const KernelOutputs& outputs,
                               Interval keys) {
    ExpectZeroRows(outputs.dk, problem.kv_heads * problem.qk_head_dim, keys, "dK");
    ExpectZeroRows(outputs.dv, problem.kv_heads * problem.v_head_dim, keys, "dV");
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
};

// Too large for the reference kernel, which smaller shapes cover.
class LargeCpuCasesTest : public CpuCasesTest {};

std::string InstanceName(const testing::TestParamInfo<KernelAndDType>& instance) {
  return fmt::format("{}_{}", instance.param.kernel, Name(instance.param.dtype));
}

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
  for (size_t token = 0; token < 37; ++token) {
    for (size_t head = 0; head < 9; ++head) {
      double score = 0;
      for (size_t channel = 0; channel < 64; ++channel) {
        const size_t q = (token * 9 + head) * 64 + channel;
        const size_t kv = (token * 3 + head / 3) * 64 + channel;
        ASSERT_EQ(outputs.out[q], inputs.v[kv]) << token;
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
        // P (dP - delta) with dP = delta: what is left is rounding of terms near 10.
        EXPECT_NEAR(outputs.dk[kv], 0, dtype() == DType::kFloat32 ? 1e-5 : 0.05);
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

// Case M1: areas, and the rows at the edges of the window against fp64.
TEST_P(LargeCpuCasesTest, AWindowIsADistanceNotACount) {
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
TEST_P(CpuCasesTest, AWindowAsWideAsTheSequenceIsCausal) {
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
TEST_P(CpuCasesTest, APrefixOfPTokensIsSeenByAllAndNoMore) {
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
TEST_P(CpuCasesTest, PaddingOfAShortLastBlockTakesNoPart) {
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
TEST_P(CpuCasesTest, ABlockRowThatSelectsNothingDisturbsNoOther) {
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

// Case G2.
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
