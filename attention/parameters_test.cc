// Options against declarations.

#include "attention/parameters.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::HasSubstr;

const std::vector<Parameter>& Declared() {
  static const std::vector<Parameter> declared = {
      {"window", ParameterKind::kInteger, Value{int64_t{1024}}, "tokens", 0, 4096, {}},
      {"keep", ParameterKind::kReal, Value{int64_t{1}}, "share", 0, 1, {}},
      {"deterministic", ParameterKind::kBool, Value{false}, "whether", {}, {}, {}},
      {"documents",
       ParameterKind::kText,
       Value{std::string("auto")},
       "name",
       {},
       {},
       {"auto", "pile", "prolong64k"}},
      {"slices", ParameterKind::kList, {}, "the slices", {}, {}, {}},
  };
  return declared;
}

std::string Says(const Options& given) {
  const auto options = ResolveOptions("thing", given, Declared());
  return options.ok() ? "ok" : std::string(options.status().message());
}

Options With(std::string name, Value value) {
  Options options = {{"slices", Value{Value::List{}}}};
  options[std::move(name)] = std::move(value);
  return options;
}

TEST(ParametersTest, DefaultsFillWhatIsNotGiven) {
  const Options options =
      ResolveOptions("thing", With("window", Value{int64_t{7}}), Declared()).value();
  EXPECT_EQ(GetInteger(options, "window"), 7);
  EXPECT_EQ(GetReal(options, "keep"), 1.0);
  EXPECT_FALSE(GetBool(options, "deterministic"));
  EXPECT_EQ(GetText(options, "documents"), "auto");
  EXPECT_TRUE(GetList(options, "slices").empty());
}

TEST(ParametersTest, IntegerServesAsANumber) {
  const Options options =
      ResolveOptions("thing", With("keep", Value{int64_t{0}}), Declared()).value();
  EXPECT_EQ(GetReal(options, "keep"), 0.0);
}

TEST(ParametersTest, WhatDoesNotFitIsRefusedWithWhatWould) {
  EXPECT_THAT(Says(With("windw", Value{int64_t{7}})),
              HasSubstr("'thing' has no parameter 'windw' (did you mean 'window'?)"));
  EXPECT_THAT(Says(With("window", Value{std::string("7")})),
              HasSubstr("must be an integer, not 7"));
  EXPECT_THAT(Says(With("window", Value{7.5})), HasSubstr("must be an integer, not 7.5"));
  EXPECT_THAT(Says(With("window", Value{int64_t{-1}})), HasSubstr("must be in 0..4096, not -1"));
  EXPECT_THAT(Says(With("window", Value{int64_t{4097}})), HasSubstr("must be in 0..4096"));
  EXPECT_THAT(Says(With("keep", Value{std::numeric_limits<double>::quiet_NaN()})),
              HasSubstr("finite"));
  EXPECT_THAT(Says(With("deterministic", Value{int64_t{1}})), HasSubstr("true or false"));
  EXPECT_THAT(Says(With("documents", Value{std::string("pil")})),
              HasSubstr("one of auto, pile, prolong64k (did you mean 'pile'?)"));
  EXPECT_THAT(Says({}), HasSubstr("'thing' needs its parameter 'slices': the slices"));
}

TEST(ParametersTest, ComponentWithoutParametersSaysSo) {
  const auto options = ResolveOptions("full", {{"window", Value{true}}}, {});
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(std::string(options.status().message()), HasSubstr("'full' takes no parameters"));
}

TEST(ParametersTest, CanonicalTextOrdersParametersAndQuotesWhatNeedsIt) {
  EXPECT_EQ(ComponentText("full", {}), "full");
  const Value slice{Value::List{Value{int64_t{0}}, Value{std::string("causal")}}};
  EXPECT_EQ(ComponentText("x", {{"b", Value{std::string("two words")}},
                                {"a", Value{0.5}},
                                {"c", Value{true}},
                                {"d", Value{Value::List{slice, slice}}},
                                {"e", Value{std::string("a\"\n")}}}),
            "x{a=0.5,b=\"two words\",c=true,d=[[0,causal],[0,causal]],e=\"a\\\"\\x0a\"}");
}

TEST(ParametersTest, TextsThatDifferOnlyInTheirCommasHaveDifferentCanonicalTexts) {
  EXPECT_NE(ComponentText("x", {{"a", Value{std::string("1,b=2")}}}),
            ComponentText("x", {{"a", Value{int64_t{1}}}, {"b", Value{int64_t{2}}}}));
}

TEST(NearestNameTest, FindsTheOneThatWasMeantOrNothing) {
  const std::vector<std::string> names = {"cpu_tiled", "cpu_reference", "cudnn"};
  EXPECT_EQ(NearestName("cpu_tild", names), "cpu_tiled");
  EXPECT_EQ(NearestName("cudn", names), "cudnn");
  EXPECT_EQ(NearestName("rign", {"ring", "ring_zigzag"}), "ring");  // a swap is one mistake
  EXPECT_EQ(NearestName("flash", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace lcab
