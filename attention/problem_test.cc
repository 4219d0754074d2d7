// Problems and their FLOPs.

#include "attention/problem.h"

#include <cmath>

#include "attention/flops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Mask> MaskOf(int64_t tokens, SliceKind kind) {
  return std::make_shared<const Mask>(
      Mask::FromSlices(tokens, tokens, std::vector<Slice>{{0, tokens, 0, tokens, kind}}).value());
}

Problem Base() {
  Problem problem;
  problem.q_heads = 8;
  problem.kv_heads = 2;
  problem.qk_head_dim = 192;
  problem.v_head_dim = 128;
  problem.mask = MaskOf(64, SliceKind::kFull);
  return problem;
}

std::string Says(const Problem& problem) { return std::string(Validate(problem).message()); }

TEST(ProblemTest, HeadsOfAGroupShareTheirKvHead) {
  const Problem problem = Base();
  EXPECT_TRUE(Validate(problem).ok());
  EXPECT_EQ(problem.KvHeadOf(3), 0);
  EXPECT_EQ(problem.KvHeadOf(4), 1);
  EXPECT_EQ(problem.MaskGroupOf(7), 0);
}

TEST(ProblemTest, ScaleIsGivenOrOneOverTheRootOfTheHeadDim) {
  Problem problem = Base();
  EXPECT_DOUBLE_EQ(problem.Scale(), 1 / std::sqrt(192.0));
  problem.op = Softmax{0.25, 30};
  EXPECT_EQ(problem.Scale(), 0.25);
  EXPECT_EQ(problem.Softcap(), 30);
}

TEST(ProblemTest, ExtentsFollowTheRoles) {
  const Problem problem = Base();
  const auto text = [&](Tensor tensor) {
    const Problem::Extent e = problem.ExtentOf(tensor);
    return std::to_string(e.tokens) + "," + std::to_string(e.heads) + "," + std::to_string(e.dim);
  };
  for (const Tensor tensor : {Tensor::kQ, Tensor::kDQ}) EXPECT_EQ(text(tensor), "64,8,192");
  for (const Tensor tensor : {Tensor::kOut, Tensor::kDOut}) EXPECT_EQ(text(tensor), "64,8,128");
  for (const Tensor tensor : {Tensor::kK, Tensor::kDK}) EXPECT_EQ(text(tensor), "64,2,192");
  for (const Tensor tensor : {Tensor::kV, Tensor::kDV}) EXPECT_EQ(text(tensor), "64,2,128");
  for (const Tensor tensor : {Tensor::kLse, Tensor::kDLse, Tensor::kDelta}) {
    EXPECT_EQ(text(tensor), "64,8,1");
  }
  EXPECT_EQ(Name(Tensor::kDOut), "dOut");
  EXPECT_EQ(Name(Tensor::kDV), "dV");
}

TEST(ProblemTest, ImpossibleProblemsAreRefusedWithWhatWouldBeRight) {
  Problem problem = Base();
  problem.q_heads = 33;
  EXPECT_THAT(Says(problem), HasSubstr("33 is not a multiple of kv_heads 2"));
  EXPECT_THAT(Says(problem), HasSubstr("32 or 34 query heads would fit"));
  problem.q_heads = 1;
  EXPECT_THAT(Says(problem), HasSubstr("not a multiple"));
  problem.kv_heads = 0;
  EXPECT_THAT(Says(problem), HasSubstr("in 1..65536"));
  problem = Base();
  problem.q_heads = int64_t{1} << 17;  // inputs of more heads would not be independent
  EXPECT_THAT(Says(problem), HasSubstr("in 1..65536"));
  problem.q_heads = int64_t{1} << 16;
  EXPECT_EQ(Says(problem), "");
  problem = Base();
  problem.v_head_dim = 1025;
  EXPECT_THAT(Says(problem), HasSubstr("1..1024"));
  problem = Base();
  problem.op = Softmax{std::nan(""), 0};
  EXPECT_THAT(Says(problem), HasSubstr("scale"));
  problem.op = Softmax{std::nullopt, -1};
  EXPECT_THAT(Says(problem), HasSubstr("softcap is -1"));
  // Beyond what fp32 can compute, down to a cap that is 0 in fp32.
  for (const double scale :
       {1e6, -1e6, 1001.0, 1e-7, 1e-300, std::numeric_limits<double>::infinity()}) {
    problem.op = Softmax{scale, 0};
    EXPECT_THAT(Says(problem), HasSubstr("scale is")) << scale;
  }
  for (const double softcap : {1e-300, 9e-4, 10'001.0, 1e30, std::nan("")}) {
    problem.op = Softmax{std::nullopt, softcap};
    EXPECT_THAT(Says(problem), HasSubstr("softcap is")) << softcap;
  }
  for (const double scale : {0.0, 1e-6, -1e-6, 1e3, -1e3}) {
    for (const double softcap : {0.0, 1e-3, 1e4}) {
      problem.op = Softmax{scale, softcap};
      EXPECT_EQ(Says(problem), "") << scale << " " << softcap;
    }
  }
  problem = Base();
  problem.mask = nullptr;
  EXPECT_THAT(Says(problem), HasSubstr("no mask"));
  problem.mask = std::make_shared<const Mask>(
      Mask::Create(4, 4, {HeadGroup{}, HeadGroup{}, HeadGroup{}}).value());
  EXPECT_THAT(Says(problem),
              HasSubstr("3 groups of heads; it must have 1 or one for each of the 2"));
}

TEST(ProblemTest, MoreFlopsThanSixtyThreeBitsCountAreRefused) {
  Problem problem = Base();
  problem.mask = MaskOf(Mask::kMaxTokens, SliceKind::kFull);
  EXPECT_THAT(Says(problem), HasSubstr("floating-point operations"));
  problem.mask = std::make_shared<const Mask>(
      Mask::Create(Mask::kMaxTokens, Mask::kMaxTokens, {HeadGroup{}}).value());
  EXPECT_TRUE(Validate(problem).ok());
}

// Case S4: the head dim of V differs from that of Q and K.
TEST(FlopsTest, DimsOfKeysAndValuesCountApart) {
  Problem problem = Base();
  problem.q_heads = 16;
  problem.kv_heads = 4;
  problem.mask = MaskOf(2048, SliceKind::kCausal);
  EXPECT_EQ(Flops(problem, Pass::kForward), INT64_C(21485322240));
  EXPECT_EQ(Flops(problem, Pass::kBackward), INT64_C(55861837824));
}

// Case T5: full attention over 64K tokens and over the share of one of eight.
TEST(FlopsTest, EightTimesTheTokensAreSixtyFourTimesTheWork) {
  Problem problem = Base();
  problem.q_heads = 64;
  problem.kv_heads = 8;
  problem.qk_head_dim = problem.v_head_dim = 128;
  problem.mask = MaskOf(65536, SliceKind::kFull);
  EXPECT_EQ(Flops(problem, Pass::kForward), INT64_C(140737488355328));
  EXPECT_EQ(Flops(problem, Pass::kBackward), INT64_C(140737488355328) / 2 * 5);
  problem.mask = MaskOf(8192, SliceKind::kFull);
  EXPECT_EQ(Flops(problem, Pass::kForward), INT64_C(140737488355328) / 64);
}

TEST(FlopsTest, EachKvHeadCountsItsOwnGroup) {
  Problem problem = Base();
  problem.mask = std::make_shared<const Mask>(
      Mask::Create(10, 10, {{{{0, 3, 0, 5}}, {}}, {{{2, 9, 1, 2}}, {}}}).value());
  EXPECT_EQ(TotalArea(problem), 4 * (15 + 7));
}

}  // namespace
}  // namespace lcab
