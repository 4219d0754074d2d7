#include "suites/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "suites/fake_kernels.h"

namespace lcab::suites {
namespace {

using ::testing::HasSubstr;

v1::Problem SmallProblem() {
  v1::Problem problem;
  problem.mutable_softmax()->set_softcap(30);
  problem.set_q_heads(8);
  problem.set_kv_heads(2);
  problem.set_qk_head_dim(192);
  problem.set_v_head_dim(128);
  problem.set_dtype(v1::DTYPE_BF16);
  problem.mutable_mask()->set_name("causal");
  problem.set_q_tokens(100);
  problem.set_k_tokens(100);
  problem.set_seed(5);
  return problem;
}

std::string Error(const v1::Problem& problem) {
  const absl::StatusOr<Problem> made = MakeProblem(problem);
  return made.ok() ? "no error" : std::string(made.status().message());
}

TEST(Conversion, AProblemArrivesWithAllItsParts) {
  const absl::StatusOr<Problem> problem = MakeProblem(SmallProblem());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->q_heads, 8);
  EXPECT_EQ(problem->kv_heads, 2);
  EXPECT_EQ(problem->qk_head_dim, 192);
  EXPECT_EQ(problem->v_head_dim, 128);
  EXPECT_EQ(problem->dtype, DType::kBFloat16);
  EXPECT_EQ(problem->Softcap(), 30);
  EXPECT_EQ(problem->mask->Area(0), 100 * 101 / 2);
  EXPECT_NEAR(problem->Scale(), 0.07216878364870323, 1e-15);  // 1 / sqrt(192)
}

TEST(Conversion, AScaleThatIsGivenCountsAlsoWhenItIsZero) {
  v1::Problem problem = SmallProblem();
  problem.mutable_softmax()->set_scale(0);
  const absl::StatusOr<Problem> made = MakeProblem(problem);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->Scale(), 0);
}

TEST(Conversion, ProblemsThatMakeNoSenseAreRefusedWhateverTheMessageHolds) {
  EXPECT_THAT(Error(v1::Problem()), HasSubstr("operator"));
  v1::Problem problem = SmallProblem();
  problem.set_dtype(static_cast<v1::DType>(77));
  EXPECT_THAT(Error(problem), HasSubstr("dtype 77"));
  problem = SmallProblem();
  problem.set_q_tokens(-1);
  EXPECT_THAT(Error(problem), HasSubstr("q_tokens is -1"));
  problem.set_q_tokens(INT64_MAX);
  EXPECT_THAT(Error(problem), HasSubstr("q_tokens"));
  problem = SmallProblem();
  problem.set_kv_heads(0);
  EXPECT_NE(Error(problem), "no error");
  problem = SmallProblem();
  problem.set_q_heads(33);
  EXPECT_THAT(Error(problem), HasSubstr("33"));
  problem = SmallProblem();
  problem.set_qk_head_dim(-64);
  EXPECT_NE(Error(problem), "no error");
  problem = SmallProblem();
  problem.mutable_mask()->set_name("casual");
  EXPECT_THAT(Error(problem), HasSubstr("causal"));
  problem = SmallProblem();
  (*problem.mutable_mask()->mutable_options())["window"];  // a value of no kind
  EXPECT_THAT(Error(problem), HasSubstr("window"));
}

TEST(Conversion, ValuesOfEveryKindComeBackAsTheyWent) {
  const Options options = {
      {"flag", Value{false}},
      {"count", Value{INT64_MIN}},
      {"share", Value{0.1}},
      {"name", Value{std::string("x")}},
      {"empty", Value{Value::List{}}},
      {"slices",
       Value{Value::List{Value{Value::List{Value{int64_t{1}}, Value{std::string("f")}}}}}}};
  const v1::Component component = MakeComponent("m", options);
  EXPECT_EQ(component.name(), "m");
  const absl::StatusOr<Options> back = OptionsOf(component);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, options);
}

TEST(Conversion, DeepValuesAreRefused) {
  v1::Value value;
  v1::Value* inner = &value;
  for (int i = 0; i < 90; ++i) inner = inner->mutable_list_value()->add_values();
  inner->set_bool_value(true);
  EXPECT_EQ(FromProto(value).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Conversion, AKernelIsAnnouncedWithItsParameters) {
  const v1::KernelInfo info = Describe(FakeKernel("fake", /*hidden=*/true, 128));
  EXPECT_EQ(info.name(), "fake");
  EXPECT_EQ(info.device_kind(), "cpu");
  EXPECT_TRUE(info.hidden());
  ASSERT_EQ(info.parameters_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const Parameter declared = FakeKernel("fake", true, 128).parameters()[static_cast<size_t>(i)];
    const absl::StatusOr<Parameter> back = FromProto(info.parameters(i));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->name, declared.name);
    EXPECT_EQ(back->kind, declared.kind);
    EXPECT_EQ(back->default_value, declared.default_value);
    EXPECT_EQ(back->minimum, declared.minimum);
    EXPECT_EQ(back->maximum, declared.maximum);
    EXPECT_EQ(back->choices, declared.choices);
    EXPECT_EQ(back->description, declared.description);
  }
}

TEST(Conversion, PassesAndDtypesComeBackAsTheyWent) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    EXPECT_EQ(FromProto(ToProto(pass)).value(), pass);
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EXPECT_EQ(FromProto(ToProto(dtype)).value(), dtype);
  }
  EXPECT_FALSE(FromProto(v1::PASS_UNSPECIFIED).ok());
  EXPECT_FALSE(FromProto(v1::DTYPE_UNSPECIFIED).ok());
}

}  // namespace
}  // namespace lcab::suites
