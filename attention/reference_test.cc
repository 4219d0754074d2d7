// The fp64 reference, held against an independent loss and closed forms.

#include "attention/reference.h"

#include <cmath>
#include <limits>
#include <memory>

#include "attention/dense_pairs_for_test.h"
#include "attention/made_tensors_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::Each;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// sum dOut * out + sum dLSE * LSE over everything, pair by pair, with no trick for stability.
double Loss(const Problem& problem, const Tensors& t, const std::vector<DensePairs>& allowed) {
  double loss = 0;
  for (int64_t head = 0; head < problem.q_heads; ++head) {
    const int64_t kv = problem.KvHeadOf(head);
    for (int64_t i = 0; i < problem.q_tokens(); ++i) {
      double sum = 0;
      std::vector<double> out(static_cast<size_t>(problem.v_head_dim), 0);
      for (int64_t j = 0; j < problem.k_tokens(); ++j) {
        if (!allowed[static_cast<size_t>(problem.mask->GroupOf(kv))].At(i, j)) continue;
        double score = 0;
        for (int64_t d = 0; d < problem.qk_head_dim; ++d) {
          score += static_cast<double>(t.q[static_cast<size_t>(
                       (i * problem.q_heads + head) * problem.qk_head_dim + d)]) *
                   t.k[static_cast<size_t>((j * problem.kv_heads + kv) * problem.qk_head_dim + d)];
        }
        score *= problem.Scale();
        if (problem.Softcap() > 0) score = problem.Softcap() * std::tanh(score / problem.Softcap());
        const double e = std::exp(score);
        sum += e;
        for (int64_t d = 0; d < problem.v_head_dim; ++d) {
          out[static_cast<size_t>(d)] +=
              e * t.v[static_cast<size_t>((j * problem.kv_heads + kv) * problem.v_head_dim + d)];
        }
      }
      if (sum == 0) continue;
      for (int64_t d = 0; d < problem.v_head_dim; ++d) {
        loss += out[static_cast<size_t>(d)] / sum *
                t.dout[static_cast<size_t>((i * problem.q_heads + head) * problem.v_head_dim + d)];
      }
      loss += std::log(sum) * t.dlse[static_cast<size_t>(head * problem.q_tokens() + i)];
    }
  }
  return loss;
}

// The derivative of the loss by one input, from both sides.
double Slope(const Problem& problem, Tensors* tensors, float* input,
             const std::vector<DensePairs>& allowed) {
  const float value = *input;
  *input = value + 0x1p-9F;
  const double above = *input;
  const double loss_above = Loss(problem, *tensors, allowed);
  *input = value - 0x1p-9F;
  const double below = *input;
  const double loss_below = Loss(problem, *tensors, allowed);
  *input = value;
  return (loss_above - loss_below) / (above - below);
}

TEST(ReferenceTest, GradientsAreTheSlopesOfAnIndependentLoss) {
  std::vector<HeadGroup> groups(2);
  groups[0].bands = {{0, 7, 0, 9, {}, 3}, {2, 5, 6, 9, 4, {}}};
  groups[1].bands = {{1, 6, 0, 9, -2, {}}};
  groups[1].block_map = BlockMap{{0, 3, 7}, {0, 2, 6, 9}, {1, 0, 1, 0, 1, 1}};
  const auto two_groups = Share(Mask::Create(7, 9, groups));
  const auto causal = SliceMask(6, 6, {{0, 6, 0, 6, SliceKind::kCausal}});
  std::vector<Problem> problems = {MakeProblem(two_groups, 4, 2, 5, 3),
                                   MakeProblem(causal, 3, 1, 4, 11)};
  problems.push_back(problems[0]);
  problems.back().op = Softmax{0.9, 1.5};
  problems.push_back(problems[1]);
  problems.back().op = Softmax{-0.3, 0};
  for (const Problem& problem : problems) {
    Tensors t = Tensors::Random(problem);
    std::vector<DensePairs> allowed;
    for (int64_t g = 0; g < problem.mask->groups(); ++g) {
      allowed.push_back(DensePairs::FromRowKeys(*problem.mask, g));
    }
    const Reference reference = Prepared(problem, t);
    const auto check = [&](const std::vector<double>& gradient, std::vector<float>& tensor,
                           int64_t token, int64_t heads, int64_t head) {
      const auto dim = static_cast<int64_t>(gradient.size());
      for (int64_t d = 0; d < dim; ++d) {
        float* input = &tensor[static_cast<size_t>((token * heads + head) * dim + d)];
        ASSERT_NEAR(gradient[static_cast<size_t>(d)], Slope(problem, &t, input, allowed), 2e-5);
      }
    };
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      for (int64_t row = 0; row < problem.q_tokens(); ++row) {
        check(reference.DQ(head, row), t.q, row, problem.q_heads, head);
      }
    }
    for (int64_t head = 0; head < problem.kv_heads; ++head) {
      for (int64_t key = 0; key < problem.k_tokens(); ++key) {
        check(reference.DK(head, key), t.k, key, problem.kv_heads, head);
        check(reference.DV(head, key), t.v, key, problem.kv_heads, head);
      }
    }
    // The loss is linear in dOut and dLSE: its slopes are out and LSE.
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      for (int64_t row = 0; row < problem.q_tokens(); ++row) {
        const Reference::OutRow out = reference.Out(head, row);
        check(out.out, t.dout, row, problem.q_heads, head);
        if (std::isinf(out.lse)) continue;
        float* dlse = &t.dlse[static_cast<size_t>(head * problem.q_tokens() + row)];
        ASSERT_NEAR(out.lse, Slope(problem, &t, dlse, allowed), 1e-9);
        ASSERT_EQ(out.lse, reference.lse(head, row));
      }
    }
  }
}

// Case N1: rows that see nothing.
TEST(ReferenceTest, RowWithoutKeysHasZeroOutputAndMinusInfinityLse) {
  for (const Precision precision : {Precision::kExact, Precision::kWorking}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Problem problem =
          MakeProblem(SliceMask(160, 96, {{0, 160, 0, 96, SliceKind::kCausal}}), 8, 2, 16, 16);
      problem.dtype = dtype;
      const Tensors t = Tensors::Random(problem);
      const Reference reference = Prepared(problem, t, precision);
      for (const int64_t row : {0, 63}) {
        EXPECT_THAT(reference.Out(5, row).out, Each(0));
        EXPECT_EQ(reference.Out(5, row).lse, -kInfinity);
        EXPECT_EQ(reference.lse(5, row), -kInfinity);
        EXPECT_THAT(reference.DQ(5, row), Each(0));
      }
      // Row 64 sees one key: its output is that key's V.
      const std::vector<double> out = reference.Out(5, 64).out;
      for (size_t d = 0; d < 16; ++d) EXPECT_EQ(out[d], t.v[16 + d]);
      EXPECT_TRUE(std::isfinite(reference.lse(5, 159)));
      for (const double x : reference.DK(1, 95)) EXPECT_TRUE(std::isfinite(x));
    }
  }
}

// Case N2: very negative, equal logits.
TEST(ReferenceTest, HonestVeryNegativeLogitsGiveTheMean) {
  for (const Precision precision : {Precision::kExact, Precision::kWorking}) {
    const Problem problem = MakeProblem(SliceMask(1, 128, {{0, 1, 0, 128}}), 1, 1, 64, 64);
    Tensors t = Tensors::Random(problem);
    std::fill(t.q.begin(), t.q.end(), 128.0F);
    std::fill(t.k.begin(), t.k.end(), -128.0F);
    const Reference::OutRow out = Reference(problem, t.inputs(), precision).Out(0, 0);
    EXPECT_NEAR(out.lse, -131072 + std::log(128.0), 0.02);
    for (size_t d = 0; d < 64; ++d) {
      double mean = 0;
      for (size_t key = 0; key < 128; ++key) mean += t.v[key * 64 + d] / 128.0;
      EXPECT_NEAR(out.out[d], mean, 1e-6);
    }
  }
}

// Case S1: keys and rows of one-sided documents, gradients of none.
TEST(ReferenceTest, KeysThatNoRowSeesHaveNoGradients) {
  const Problem problem = MakeProblem(SliceMask(377, 494, {{0, 300, 130, 430}}), 4, 1, 8, 8);
  const Tensors t = Tensors::Random(problem);
  const Reference reference = Prepared(problem, t);
  for (const int64_t key : {0, 129, 430, 493}) {
    EXPECT_THAT(reference.DK(0, key), Each(0));
    EXPECT_THAT(reference.DV(0, key), Each(0));
  }
  EXPECT_THAT(reference.DQ(3, 300), Each(0));
  EXPECT_EQ(reference.lse(3, 376), -kInfinity);
}

// Case S2: documents of one token.
TEST(ReferenceTest, LoneKeyGivesItsValueAndNoGradientOfTheScore) {
  std::vector<Slice> slices;
  for (int64_t token = 0; token < 37; ++token)
    slices.push_back({token, token + 1, token, token + 1});
  slices.push_back({37, 256, 37, 256, SliceKind::kCausal});
  const Problem problem = MakeProblem(SliceMask(256, 256, slices), 9, 3, 64, 64);
  Tensors t = Tensors::Random(problem);
  t.dlse.clear();
  const Reference reference = Prepared(problem, t);
  for (const int64_t token : {0, 17, 36}) {
    const Reference::OutRow out = reference.Out(4, token);
    double score = 0, dv = 0;
    for (size_t d = 0; d < 64; ++d) {
      const auto at = static_cast<size_t>(token);
      EXPECT_EQ(out.out[d], t.v[(at * 3 + 1) * 64 + d]);
      score += static_cast<double>(t.q[(at * 9 + 4) * 64 + d]) * t.k[(at * 3 + 1) * 64 + d] / 8;
      dv = 0;
      for (size_t head = 3; head < 6; ++head) dv += t.dout[(at * 9 + head) * 64 + d];
      EXPECT_NEAR(reference.DV(1, token)[d], dv, 1e-12);
      EXPECT_NEAR(reference.DQ(4, token)[d], 0, 1e-12);
      EXPECT_NEAR(reference.DK(1, token)[d], 0, 1e-12);
    }
    EXPECT_NEAR(out.lse, score, 1e-12);
  }
}

// Case C1: with Q = 0 everything follows by hand.
TEST(ReferenceTest, UniformAttentionHasTheGradientsOfItsClosedForm) {
  for (const Precision precision : {Precision::kExact, Precision::kWorking}) {
    Problem problem = MakeProblem(SliceMask(1024, 1024, {{0, 1024, 0, 1024}}), 1, 1, 64, 64);
    problem.dtype = DType::kBFloat16;
    Tensors t = Tensors::Random(problem);
    std::fill(t.q.begin(), t.q.end(), 0.0F);
    std::fill(t.dout.begin(), t.dout.end(), 1.0F);
    t.dlse.clear();
    for (size_t n = 0; n < t.k.size(); ++n) {
      const size_t rank = n / (size_t{256} * 64);  // of four
      t.k[n] = t.v[n] = static_cast<float>(rank + 1);
    }
    const Reference reference = Prepared(problem, t, precision);
    for (const int64_t token : {0, 255, 256, 1023}) {
      EXPECT_THAT(reference.Out(0, token).out, Each(2.5));
      EXPECT_NEAR(reference.lse(0, token), std::log(1024.0), 1e-6);
      EXPECT_EQ(reference.delta(0, token), 160);
      for (const double x : reference.DQ(0, token)) EXPECT_NEAR(x, 10, 1e-9);
      EXPECT_THAT(reference.DK(0, token), Each(0));
      for (const double x : reference.DV(0, token)) EXPECT_NEAR(x, 1, 1e-9);
    }
  }
}

// Case G3: a gradient that arrives through the LSE alone.
TEST(ReferenceTest, GradientThroughTheLseIsTheMeanOfKeysAndQueries) {
  const Problem problem = MakeProblem(SliceMask(64, 64, {{0, 64, 0, 64}}), 2, 2, 64, 64);
  Tensors t = Tensors::Random(problem);
  std::fill(t.q.begin(), t.q.end(), 0.0F);  // so that P is 1/64
  std::fill(t.dout.begin(), t.dout.end(), 0.0F);
  std::fill(t.dlse.begin(), t.dlse.end(), 1.0F);
  const Reference reference = Prepared(problem, t);
  const std::vector<double> dq = reference.DQ(1, 3);
  for (size_t d = 0; d < 64; ++d) {
    double mean = 0;
    for (size_t key = 0; key < 64; ++key) mean += t.k[(key * 2 + 1) * 64 + d] / 64.0;
    EXPECT_NEAR(dq[d], mean / 8, 1e-12);
  }
  EXPECT_THAT(reference.DV(1, 3), Each(0));
}

// Cases B1 and B2: short blocks, empty rows of blocks, unselected columns, a map for each kv head.
TEST(ReferenceTest, BlockMapsDecideWhatIsAveraged) {
  BlockMap map;
  for (int64_t edge = 0; edge < 1000; edge += 128) map.row_edges.push_back(edge);
  map.row_edges.push_back(1000);
  map.column_edges = map.row_edges;
  map.selected.assign(64, 0);
  map.selected[63] = 1;
  HeadGroup last{{{0, 1000, 0, 1000}}, map};
  map.selected[63] = 0;
  map.selected[56] = 1;
  HeadGroup first{{{0, 1000, 0, 1000}}, map};
  const Problem problem = MakeProblem(Share(Mask::Create(1000, 1000, {last, first})), 2, 2, 4, 4);
  Tensors t = Tensors::Random(problem);
  std::fill(t.q.begin(), t.q.end(), 0.0F);
  const Reference reference = Prepared(problem, t);
  for (const int64_t row : {896, 999}) {
    const Reference::OutRow out = reference.Out(0, row);
    EXPECT_NEAR(out.lse, std::log(104.0), 1e-12);
    for (size_t d = 0; d < 4; ++d) {
      double mean = 0;
      for (size_t key = 896; key < 1000; ++key) mean += t.v[(key * 2) * 4 + d] / 104.0;
      EXPECT_NEAR(out.out[d], mean, 1e-12);
    }
    EXPECT_NEAR(reference.Out(1, row).lse, std::log(128.0), 1e-12);
  }
  EXPECT_EQ(reference.lse(0, 895), -kInfinity);
  EXPECT_THAT(reference.DK(0, 895), Each(0));
  EXPECT_THAT(reference.DV(1, 128), Each(0));
}

// Case M1: a window of no token but its own.
TEST(ReferenceTest, WindowOfZeroGivesTheValuesThemselves) {
  const Problem problem =
      MakeProblem(Share(Mask::Create(50, 50, {{{{0, 50, 0, 50, 0, 1}}, {}}})), 2, 1, 16, 24);
  const Tensors t = Tensors::Random(problem);
  const Reference reference = Prepared(problem, t);
  for (size_t row = 0; row < 50; ++row) {
    const std::vector<double> out = reference.Out(1, static_cast<int64_t>(row)).out;
    for (size_t d = 0; d < 24; ++d) EXPECT_EQ(out[d], t.v[row * 24 + d]);
  }
}

TEST(ReferenceTest, RowsMayComeFromElsewhere) {
  const Problem problem =
      MakeProblem(SliceMask(9, 9, {{0, 9, 0, 9, SliceKind::kCausal}}), 2, 1, 4, 4);
  const Tensors t = Tensors::Random(problem);
  const Reference whole = Prepared(problem, t);
  Reference other(problem, t.inputs(), Precision::kExact);
  for (int64_t head = 0; head < 2; ++head) {
    std::vector<double> lse, delta;
    for (int64_t row = 2; row < 9; ++row) {
      lse.push_back(whole.lse(head, row));
      delta.push_back(whole.delta(head, row));
    }
    other.SetRows(head, {2, 9}, lse, delta);
  }
  for (int64_t key = 2; key < 9; ++key) {
    EXPECT_EQ(other.DK(0, key), whole.DK(0, key));
    EXPECT_EQ(other.DV(0, key), whole.DV(0, key));
    EXPECT_EQ(other.DQ(1, key), whole.DQ(1, key));
  }
}

// With Q = 0 and K = V = dOut = rows of one value, each term is known.
TEST(ReferenceTest, TermsAreTheRootOfTheSummedSquares) {
  constexpr int64_t kTokens = 16, kDim = 4;
  const Problem problem =
      MakeProblem(SliceMask(kTokens, kTokens, {{0, kTokens, 0, kTokens}}), 2, 1, kDim, kDim);
  Tensors t = Tensors::Random(problem);
  std::fill(t.q.begin(), t.q.end(), 2.0F);
  std::fill(t.k.begin(), t.k.end(), 0.0F);
  std::fill(t.v.begin(), t.v.end(), 3.0F);
  std::fill(t.dout.begin(), t.dout.end(), 5.0F);
  std::fill(t.dlse.begin(), t.dlse.end(), 0.0F);
  const Reference reference = Prepared(problem, t);
  // P = 1/16, |v|^2 = 4 * 9: the root of 16 * (1/16)^2 * 36.
  EXPECT_NEAR(reference.Out(0, 0).terms, std::sqrt(36.0 / 16), 1e-12);
  double terms = 0;
  // 2 heads x 16 rows, P = 1/16, |dout|^2 = 100.
  (void)reference.DV(0, 0, &terms);
  EXPECT_NEAR(terms, std::sqrt(32 * 100.0 / 256), 1e-12);
  // dP = delta = 60 cancel, but each rounds, and so do the 4 products of 15 in dP: scale 1/2,
  // P = 1/16, |q|^2 = 16.
  EXPECT_THAT(reference.DK(0, 0, &terms), Each(0));
  EXPECT_NEAR(terms, 0.5 * std::sqrt(32 * (2 * 3600.0 + 4 * 225) * 16 / 256), 1e-9);
  EXPECT_THAT(reference.DQ(0, 0, &terms), Each(0));
  EXPECT_EQ(terms, 0);  // K is 0
}

}  // namespace
}  // namespace lcab
