#include "measurement/probe_pattern.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "attention/mask.h"
#include "attention/masks.h"
#include "attention/reference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

void RunHere(int64_t parts, const std::function<void(int64_t)>& body) {
  for (int64_t part = 0; part < parts; ++part) body(part);
}

// All inputs of one run, contiguous.
struct Inputs {
  std::vector<float> q, k, v, dout;
  ReferenceInputs spans() const { return {q, k, v, dout, {}}; }
};

Inputs MakeInputs(const Problem& problem, const ProbeRun& run) {
  const ProbeInputs probe(problem, run);
  Inputs inputs;
  for (const auto& [tensor, values] :
       {std::pair{Tensor::kQ, &inputs.q}, std::pair{Tensor::kK, &inputs.k},
        std::pair{Tensor::kV, &inputs.v}, std::pair{Tensor::kDOut, &inputs.dout}}) {
    const Problem::Extent extent = problem.ExtentOf(tensor);
    values->resize(static_cast<size_t>(extent.tokens * extent.heads * extent.dim));
    for (int64_t token = 0; token < extent.tokens; ++token) {
      for (int64_t head = 0; head < extent.heads; ++head) {
        probe.Row(tensor, token, head,
                  std::span(*values).subspan(
                      static_cast<size_t>((token * extent.heads + head) * extent.dim),
                      static_cast<size_t>(extent.dim)));
      }
    }
  }
  return inputs;
}

// Largest error as a share of what is allowed, over every row of every tensor of the pass; `actual`
// computes rows.
using RowOf = std::function<std::vector<double>(Tensor tensor, int64_t token, int64_t head)>;

struct Worst {
  double ratio = 0;
  Tensor tensor = Tensor::kOut;
  int64_t token = 0, head = 0;
};

Worst WorstRow(const Problem& problem, const ProbeRun& run, const RowOf& actual) {
  Worst worst;
  const std::vector<Tensor> tensors = run.pass == Pass::kForward
                                          ? std::vector{Tensor::kOut, Tensor::kLse}
                                          : std::vector{Tensor::kDQ, Tensor::kDK, Tensor::kDV};
  for (int64_t kv_head = 0; kv_head < problem.kv_heads; ++kv_head) {
    const ProbeExpectation expectation(problem, run, kv_head, RunHere);
    ProbeExpectation::Scratch scratch;
    ProbeExpectation::Row row;
    for (const Tensor tensor : tensors) {
      const bool by_key = tensor == Tensor::kDK || tensor == Tensor::kDV;
      const int64_t group = by_key ? 1 : problem.heads_per_kv();
      const int64_t tokens = by_key ? problem.k_tokens() : problem.q_tokens();
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        for (int64_t token = 0; token < tokens; ++token) {
          expectation.Expect(tensor, token, head, scratch, &row);
          const std::vector<double> values = actual(tensor, token, head);
          for (size_t c = 0; c < values.size(); ++c) {
            const double value = values[c] / row.unit;
            if (value == row.values[c]) continue;
            double ratio = std::abs(value - row.values[c]) /
                           (row.absolute + row.relative * std::abs(row.values[c]));
            if (std::isnan(ratio)) ratio = HUGE_VAL;  // an infinity where there should be none
            if (ratio > worst.ratio) worst = {ratio, tensor, token, head};
          }
        }
      }
    }
  }
  return worst;
}

RowOf RowsOf(const Reference& reference) {
  return [&reference](Tensor tensor, int64_t token, int64_t head) -> std::vector<double> {
    switch (tensor) {
      case Tensor::kOut:
        return reference.Out(head, token).out;
      case Tensor::kLse:
        return {reference.Out(head, token).lse};
      case Tensor::kDQ:
        return reference.DQ(head, token);
      case Tensor::kDK:
        return reference.DK(head, token);
      default:
        return reference.DV(head, token);
    }
  };
}

// Computes the pass under `computed`'s mask on the probe's inputs for `problem`.
Worst Compare(const Problem& problem, const Problem& computed, const ProbeRun& run,
              Precision precision) {
  const Inputs inputs = MakeInputs(problem, run);
  Reference reference(computed, inputs.spans(), precision);
  if (run.pass == Pass::kBackward) {
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      reference.PrepareRows(head, {0, problem.q_tokens()});
    }
  }
  return WorstRow(problem, run, RowsOf(reference));
}

struct Shape {
  std::string mask;
  Options options;
  int64_t tokens = 0, q_heads = 1, kv_heads = 1, qk_dim = 16, v_dim = 16;
};

Problem MakeProblem(const Shape& shape) {
  Problem problem;
  problem.q_heads = shape.q_heads;
  problem.kv_heads = shape.kv_heads;
  problem.qk_head_dim = shape.qk_dim;
  problem.v_head_dim = shape.v_dim;
  problem.dtype = DType::kBFloat16;
  problem.mask = std::make_shared<const Mask>(
      MakeMask(shape.mask, shape.options,
               {.q_tokens = shape.tokens, .k_tokens = shape.tokens, .kv_heads = shape.kv_heads})
          .value());
  return problem;
}

std::vector<Shape> Shapes() {
  return {
      {"full", {}, 97, 2, 1, 16, 16},
      {"causal", {}, 131, 3, 1, 8, 24},
      {"causal", {}, 61, 1, 1, 1, 1},
      {"causal", {}, 64, 2, 2, 2, 3},
      {"sliding_window_causal", {{"window", Value{int64_t{13}}}}, 150, 6, 1, 12, 7},
      {"causal_document",
       {{"lengths", Value{Value::List{Value{int64_t{1}}, Value{int64_t{40}}, Value{int64_t{79}}}}}},
       120,
       2,
       2,
       16,
       5},
      {"block_sparse_uniform",
       {{"block", Value{int64_t{64}}}, {"keep", Value{0.5}}},
       256,
       4,
       2,
       8,
       8},
      {"prefix_lm_causal", {}, 90, 2, 1, 32, 32},
  };
}

Problem WithSlices(int64_t q_tokens, int64_t k_tokens, std::vector<Slice> slices) {
  Problem problem;
  problem.q_heads = 2;
  problem.kv_heads = 1;
  problem.qk_head_dim = problem.v_head_dim = 16;
  problem.dtype = DType::kBFloat16;
  problem.mask = std::make_shared<const Mask>(Mask::FromSlices(q_tokens, k_tokens, slices).value());
  return problem;
}

TEST(ProbePatternTest, ClosedFormsAgreeWithTheReference) {
  for (const Shape& shape : Shapes()) {
    const Problem problem = MakeProblem(shape);
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      for (const ProbeRun& run : ProbeRuns(problem, pass)) {
        const Worst worst = Compare(problem, problem, run, Precision::kExact);
        EXPECT_LT(worst.ratio, 1e-3)
            << shape.mask << " " << shape.tokens << " " << Name(pass) << ": " << Name(worst.tensor)
            << " token " << worst.token << " head " << worst.head;
      }
    }
  }
}

TEST(ProbePatternTest, RowsWithoutKeysAndKeysWithoutRowsMustBeExact) {  // Case N1
  const Problem problem = WithSlices(160, 96, {{0, 160, 0, 96, SliceKind::kCausal}});
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const ProbeRun& run : ProbeRuns(problem, pass)) {
      EXPECT_LT(Compare(problem, problem, run, Precision::kExact).ratio, 1e-3);
      // A finite stand-in for -inf, or a value that is only nearly 0, is infinitely wrong.
      const Inputs inputs = MakeInputs(problem, run);
      Reference reference(problem, inputs.spans(), Precision::kExact);
      for (int64_t head = 0; head < 2; ++head) reference.PrepareRows(head, {0, 160});
      const RowOf rows = RowsOf(reference);
      const Worst worst = WorstRow(problem, run, [&](Tensor tensor, int64_t token, int64_t head) {
        std::vector<double> row = rows(tensor, token, head);
        const bool no_keys = tensor != Tensor::kDK && tensor != Tensor::kDV && token < 64;
        if (no_keys) row[0] = tensor == Tensor::kLse ? -1e30 : 1e-30;
        return row;
      });
      EXPECT_TRUE(std::isinf(worst.ratio));
      EXPECT_LT(worst.token, 64);
    }
  }
}

TEST(ProbePatternTest, WorkingPrecisionStaysFarBelowAMark) {
  // bf16 P, dS and outputs: what a good kernel does must not look like a fault.
  for (Shape shape : Shapes()) {
    shape.qk_dim = shape.v_dim = 32;
    if (shape.mask != "block_sparse_uniform") shape.tokens = 400;
    if (shape.mask == "causal_document") shape.options.clear();
    const Problem problem = MakeProblem(shape);
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      for (const ProbeRun& run : ProbeRuns(problem, pass)) {
        const Worst worst = Compare(problem, problem, run, Precision::kWorking);
        EXPECT_LT(worst.ratio, 0.5) << shape.mask << " " << Name(pass) << ": " << Name(worst.tensor)
                                    << " token " << worst.token << " head " << worst.head;
      }
    }
  }
}

TEST(ProbePatternTest, OneLostOrAddedKeyOfOneRowIsSeen) {
  constexpr int64_t kTokens = 150;
  const Problem problem =
      WithSlices(kTokens, kTokens, {{0, kTokens, 0, kTokens, SliceKind::kCausal}});
  for (const auto& [row, key] : {std::pair{0, 0},
                                 {1, 0},
                                 {1, 1},
                                 {2, 1},
                                 {5, 3},
                                 {77, 76},
                                 {77, 0},
                                 {149, 149},
                                 {149, 60},
                                 {30, 31},
                                 {0, 149}}) {
    // All causal pairs, but (row, key) is the other way round.
    std::vector<Slice> slices;
    if (row > 0) slices.push_back({0, row, 0, row, SliceKind::kCausal});
    if (row + 1 < kTokens) slices.push_back({row + 1, kTokens, 0, kTokens, SliceKind::kCausal});
    if (key <= row) {
      if (key > 0) slices.push_back({row, row + 1, 0, key, SliceKind::kFull});
      if (key < row) slices.push_back({row, row + 1, key + 1, row + 1, SliceKind::kFull});
    } else {
      slices.push_back({row, row + 1, 0, row + 1, SliceKind::kFull});
      slices.push_back({row, row + 1, key, key + 1, SliceKind::kFull});
    }
    const Problem faulty = WithSlices(kTokens, kTokens, slices);
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      double worst = 0;
      for (const ProbeRun& run : ProbeRuns(problem, pass)) {
        worst = std::max(worst, Compare(problem, faulty, run, Precision::kExact).ratio);
      }
      EXPECT_GT(worst, 1) << Name(pass) << " row " << row << " key " << key;
    }
  }
}

// Each pair in turn taken out of a small mask, or put in: also with one channel, where signs are
// all that tells marks apart, and with more query heads than one run marks.
TEST(ProbePatternTest, EverySinglePairThatIsWrongIsSeen) {
  constexpr int64_t kTokens = 15;
  const Options window = {{"window", Value{int64_t{3}}}};
  for (const Shape& shape :
       {Shape{"causal", {}, kTokens, 2, 1, 16, 16}, Shape{"full", {}, kTokens, 5, 1, 8, 3},
        Shape{"prefix_lm_causal", {}, kTokens, 1, 1, 1, 1},
        Shape{"sliding_window_full", window, kTokens, 1, 1, 2, 2}}) {
    const Problem problem = MakeProblem(shape);
    for (int64_t row = 0; row < kTokens; ++row) {
      for (int64_t key = 0; key < kTokens; ++key) {
        HeadGroup group;
        for (int64_t i = 0; i < kTokens; ++i) {
          for (int64_t j = 0; j < kTokens; ++j) {
            if (problem.mask->Allows(0, i, j) != (i == row && j == key)) {
              group.bands.push_back({i, i + 1, j, j + 1, {}, {}});
            }
          }
        }
        Problem faulty = problem;
        faulty.mask = std::make_shared<const Mask>(Mask::Create(kTokens, kTokens, {group}).value());
        for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
          double worst = 0;
          for (const ProbeRun& run : ProbeRuns(problem, pass)) {
            worst = std::max(worst, Compare(problem, faulty, run, Precision::kExact).ratio);
          }
          // A quarter or half of a mark is allowed, and a whole one is missing.
          ASSERT_GT(worst, 1.5) << shape.mask << " " << Name(pass) << " row " << row << " key "
                                << key;
        }
      }
    }
  }
}

TEST(ProbePatternTest, RowsThatComputeAnotherHeadOrRowAreSeen) {
  const Problem problem = MakeProblem({"causal", {}, 140, 4, 2, 16, 16});
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    double swapped_heads = 0, swapped_rows = 0;
    for (const ProbeRun& run : ProbeRuns(problem, pass)) {
      const Inputs inputs = MakeInputs(problem, run);
      Reference reference(problem, inputs.spans(), Precision::kExact);
      for (int64_t head = 0; head < 4; ++head) reference.PrepareRows(head, {0, 140});
      const RowOf rows = RowsOf(reference);
      swapped_heads = std::max(
          swapped_heads, WorstRow(problem, run, [&](Tensor tensor, int64_t token, int64_t head) {
                           const bool by_key = tensor == Tensor::kDK || tensor == Tensor::kDV;
                           return rows(tensor, token, by_key ? 1 - head : 3 - head);
                         }).ratio);
      swapped_rows = std::max(
          swapped_rows, WorstRow(problem, run, [&](Tensor tensor, int64_t token, int64_t head) {
                          return rows(tensor, token == 100 ? 101 : token, head);
                        }).ratio);
    }
    EXPECT_GT(swapped_heads, 1) << Name(pass);
    EXPECT_GT(swapped_rows, 1) << Name(pass);
  }
}

TEST(ProbePatternTest, QueryHeadsOfAGroupCannotStandInForEachOther) {
  // dK and dV add up over the group: one head twice and another never must not look the same. Seen
  // as inputs: a run's marks differ between any two heads of a group in every row.
  const Problem problem = MakeProblem({"full", {}, 50, 4, 1, 64, 64});
  for (const ProbeRun& run : ProbeRuns(problem, Pass::kBackward)) {
    const ProbeInputs inputs(problem, run);
    for (int64_t token = 0; token < 50; ++token) {
      std::vector<std::vector<float>> rows(4, std::vector<float>(64));
      for (int64_t head = 0; head < 4; ++head) {
        inputs.Row(Tensor::kDOut, token, head, rows[static_cast<size_t>(head)]);
      }
      for (size_t a = 0; a < 4; ++a) {
        for (size_t b = 0; b < a; ++b) EXPECT_NE(rows[a], rows[b]) << token;
      }
    }
  }
}

TEST(ProbePatternTest, EveryQueryHeadIsMarkedInSomeRunAndNoRunMarksTooMany) {
  for (const int64_t group : {1, 3, 4, 5, 8, 16}) {
    const Problem problem = MakeProblem({"causal", {}, 20, group, 1, 16, 16});
    std::vector<int> marked(static_cast<size_t>(group));
    for (const ProbeRun& run : ProbeRuns(problem, Pass::kBackward)) {
      EXPECT_LE(run.heads_of_group.size(), kHeadsAtOnce);
      for (int64_t u = run.heads_of_group.begin; u < run.heads_of_group.end; ++u) {
        ++marked[static_cast<size_t>(u)];
      }
    }
    // In two periods each.
    EXPECT_THAT(marked, testing::Each(2)) << group;
  }
}

TEST(ProbePatternTest, OneKeyOfAMillionMovesAnOutputByAWholeMark) {
  // Closed forms at 1M tokens, and at one row a mask that lacks one key.
  constexpr int64_t kTokens = int64_t{1} << 20;
  constexpr int64_t kRow = kTokens - 3, kKey = 777'777;
  const Problem problem =
      WithSlices(kTokens, kTokens, {{0, kTokens, 0, kTokens, SliceKind::kCausal}});
  const Problem faulty = WithSlices(kTokens, kTokens,
                                    {{0, kRow, 0, kRow, SliceKind::kCausal},
                                     {kRow, kRow + 1, 0, kKey, SliceKind::kFull},
                                     {kRow, kRow + 1, kKey + 1, kRow + 1, SliceKind::kFull},
                                     {kRow + 1, kTokens, 0, kTokens, SliceKind::kCausal}});
  for (const ProbeRun& run : ProbeRuns(problem, Pass::kForward)) {
    const ProbeExpectation right(problem, run, 0, RunHere), wrong(faulty, run, 0, RunHere);
    ProbeExpectation::Scratch a, b;
    ProbeExpectation::Row expected, actual;
    right.Expect(Tensor::kOut, kRow, 0, a, &expected);
    wrong.Expect(Tensor::kOut, kRow, 0, b, &actual);
    double most = 0;
    for (size_t c = 0; c < expected.values.size(); ++c) {
      EXPECT_LE(std::abs(expected.values[c]), 1);
      const double value = actual.values[c] * actual.unit / expected.unit;
      most = std::max(most, std::abs(value - expected.values[c]));
    }
    EXPECT_GT(most, 0.9);
  }
}

}  // namespace
}  // namespace lcab::measurement
