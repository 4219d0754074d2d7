// Every strategy against every mask: properties that hold for all of them.

#include "cp/strategy.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention/masks.h"
#include "cp/testing/borrowed_kernel.h"
#include "cp/testing/check_strategy.h"
#include "cp/testing/run_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace lcab::cp {
namespace {

using ::testing::HasSubstr;

struct Variant {
  std::string strategy;
  Options options;
};

Options Text(const std::string& name, const std::string& value) { return {{name, Value{value}}}; }

std::vector<Variant> Variants() {
  return {{"single", {}},
          {"ring", {}},
          {"ring_zigzag", {}},
          {"ring_zigzag", Text("per", "document")},
          {"all_gather", {}},
          {"all_gather",
           {{"heads_per_group", Value{int64_t{2}}}, {"sharding", Value{std::string("zigzag")}}}},
          {"all_gather",
           {{"heads_per_group", Value{int64_t{3}}},
            {"sharding", Value{std::string("zigzag_document")}}}},
          {"ulysses", {}}};
}

Value::List Lengths(std::initializer_list<int64_t> lengths) {
  Value::List list;
  for (const int64_t length : lengths) list.push_back(Value{length});
  return list;
}

// Options that make each mask small enough to be interesting at a few dozen tokens.
Options SmallOptions(const MaskType& type, int64_t tokens) {
  Options options;
  for (const Parameter& parameter : type.parameters) {
    if (parameter.name == "window") options["window"] = Value{int64_t{5}};
    if (parameter.name == "block") options["block"] = Value{int64_t{4}};
    if (parameter.name == "average_block") options["average_block"] = Value{int64_t{9}};
    if (parameter.name == "min_block") options["min_block"] = Value{int64_t{2}};
    if (parameter.name == "keep") options["keep"] = Value{0.5};
    if (parameter.name == "lengths") {
      const int64_t first = tokens / 3, second = tokens > 2 ? 1 : 0;
      options["lengths"] = Value{Lengths({first, second, tokens - first - second})};
    }
    if (parameter.name == "slices") {
      const auto slice = [](int64_t q0, int64_t q1, int64_t k0, int64_t k1, const char* kind) {
        return Value{
            Value::List{Value{q0}, Value{q1}, Value{k0}, Value{k1}, Value{std::string(kind)}}};
      };
      const int64_t half = tokens / 2;
      options["slices"] = Value{Value::List{slice(0, half, half, tokens, "bi_causal"),
                                            slice(half, tokens, 0, half, "inv_causal")}};
    }
  }
  return options;
}

struct Shape {
  const char* name;
  int64_t tokens, q_heads, kv_heads, qk_head_dim, v_head_dim;
  DType dtype;
  int first_turn;
};

class EveryMask : public testing::TestWithParam<Shape> {};

TEST_P(EveryMask, GivesWhatOneDeviceGivesUnderEveryStrategyOnAnyNumberOfRanks) {
  const Shape& shape = GetParam();
  int runs = 0;
  int turn = shape.first_turn;
  for (const MaskType& type : MaskTypes()) {
    Problem problem{.q_heads = shape.q_heads,
                    .kv_heads = shape.kv_heads,
                    .qk_head_dim = shape.qk_head_dim,
                    .v_head_dim = shape.v_head_dim,
                    .dtype = shape.dtype};
    const absl::StatusOr<Mask> mask = MakeMask(type.name, SmallOptions(type, shape.tokens),
                                               {.q_tokens = shape.tokens,
                                                .k_tokens = shape.tokens,
                                                .kv_heads = shape.kv_heads,
                                                .seed = 7});
    ASSERT_TRUE(mask.ok()) << type.name << ": " << mask.status();
    problem.mask = std::make_shared<const Mask>(*mask);
    const Tensors inputs = RandomInputs(problem, 1);
    const Tensors truth = Truth(problem, inputs);
    SCOPED_TRACE(type.name);
    for (const Variant& variant : Variants()) {
      for (int ranks = 1; ranks <= 5; ++ranks) {
        // Half of the shapes for each mask, variant and number of ranks.
        if (++turn % 2 == 0) continue;
        runs += CheckTrial({.strategy = variant.strategy,
                            .options = variant.options,
                            .problem = problem,
                            .ranks = ranks,
                            .overlap = (runs % 3) != 0},
                           inputs, truth);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(runs, 14 * 6 * 5 / 2);  // single and ulysses are for some numbers of ranks only
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EveryMask,
    testing::Values(Shape{"Grouped", 41, 4, 2, 8, 8, DType::kFloat32, 0},
                    Shape{"GroupedInBf16", 41, 4, 2, 8, 8, DType::kBFloat16, 1},
                    Shape{"MultiHeadOfTwoDims", 29, 6, 6, 5, 12, DType::kFloat32, 0},
                    Shape{"FiveHeads", 64, 5, 5, 16, 4, DType::kFloat32, 1},
                    Shape{"OneKvHeadInBf16", 34, 8, 1, 3, 7, DType::kBFloat16, 0},
                    Shape{"FewerTokensThanRanks", 3, 4, 2, 8, 8, DType::kFloat32, 1}),
    [](const testing::TestParamInfo<Shape>& shape) { return std::string(shape.param.name); });

std::shared_ptr<const Mask> Slices(int64_t q_tokens, int64_t k_tokens,
                                   const std::vector<Slice>& slices) {
  return std::make_shared<const Mask>(Mask::FromSlices(q_tokens, k_tokens, slices).value());
}

TEST(Strategies, CrossAttentionGivesWhatOneDeviceGives) {
  const std::vector<std::shared_ptr<const Mask>> masks = {
      Slices(37, 23, {{0, 37, 0, 23, SliceKind::kFull}}),
      Slices(17, 60, {{0, 17, 0, 60, SliceKind::kCausal}}),
      Slices(60, 17, {{0, 60, 0, 17, SliceKind::kCausal}}),  // the first 43 rows see nothing
      // Documents with queries and no keys, and the other way round.
      Slices(38, 49, {{0, 30, 13, 43, SliceKind::kFull}}),
      Slices(40, 40, {{0, 10, 0, 25, SliceKind::kCausal}, {10, 40, 25, 40, SliceKind::kFull}}),
      Slices(1, 50, {{0, 1, 0, 50, SliceKind::kFull}}),
      Slices(0, 8, {}),
      Slices(8, 0, {}),
  };
  int runs = 0, turn = 0;
  for (const std::shared_ptr<const Mask>& mask : masks) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const Problem problem{.q_heads = 4,
                            .kv_heads = 2,
                            .qk_head_dim = 8,
                            .v_head_dim = 6,
                            .dtype = dtype,
                            .mask = mask};
      turn = dtype == DType::kFloat32 ? 0 : 1;
      const Tensors inputs = RandomInputs(problem, 2);
      const Tensors truth = Truth(problem, inputs);
      for (const Variant& variant : Variants()) {
        for (int ranks = 1; ranks <= 5; ++ranks) {
          if (++turn % 2 == 0) continue;  // each in one of the two dtypes
          runs += CheckTrial({.strategy = variant.strategy,
                              .options = variant.options,
                              .problem = problem,
                              .ranks = ranks},
                             inputs, truth);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(runs, 8 * 6 * 5);
}

Problem Causal(int64_t tokens, int64_t q_heads, int64_t kv_heads, DType dtype = DType::kFloat32) {
  return {.q_heads = q_heads,
          .kv_heads = kv_heads,
          .qk_head_dim = 16,
          .v_head_dim = 16,
          .dtype = dtype,
          .mask = Slices(tokens, tokens, {{0, tokens, 0, tokens, SliceKind::kCausal}})};
}

TEST(Strategies, RunOverTheNetworkWithTheKernelThatIsMeasured) {
  const Problem problem = Causal(50, 4, 2);
  const Tensors inputs = RandomInputs(problem, 3);
  const Tensors truth = Truth(problem, inputs);
  for (const Variant& variant : Variants()) {
    for (const int ranks : {2, 3, 4}) {
      CheckTrial({.strategy = variant.strategy,
                  .options = variant.options,
                  .problem = problem,
                  .ranks = ranks,
                  .run = {.kernel = BuiltinKernels().Find("cpu_tiled").value(),
                          .iterations = 3,
                          .network = true}},
                 inputs, truth);
    }
  }
}

TEST(Strategies, KernelsThatWantOutInPlaceOfDeltaGetIt) {
  const BorrowedKernel kernel(
      {.wants_delta = false, .float32_out = true, .float32_gradients = true});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Problem problem = Causal(31, 4, 2, dtype);
    const Tensors inputs = RandomInputs(problem, 4);
    const Tensors truth = Truth(problem, inputs);
    for (const Variant& variant : Variants()) {
      for (const int ranks : {1, 2, 4}) {
        CheckTrial({.strategy = variant.strategy,
                    .options = variant.options,
                    .problem = problem,
                    .ranks = ranks,
                    .run = {.kernel = &kernel}},
                   inputs, truth);
      }
    }
  }
}

// Root of the mean squared error.
double Error(const std::vector<float>& got, const std::vector<float>& right) {
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    sum += std::pow(static_cast<double>(got[i]) - static_cast<double>(right[i]), 2);
  }
  return std::sqrt(sum / static_cast<double>(got.size()));
}

TEST(Strategies, TheErrorDoesNotGrowWithTheNumberOfRanks) {
  const Problem problem = Causal(160, 8, 2, DType::kBFloat16);
  const Tensors inputs = RandomInputs(problem, 5);
  const Tensors truth = Truth(problem, inputs);
  const Kernel* kernel = BuiltinKernels().Find("cpu_reference").value();
  for (const Variant& variant : Variants()) {
    std::map<Tensor, double> one_rank;
    for (const int ranks : {1, 8}) {
      const Trial trial{.strategy = variant.strategy,
                        .options = variant.options,
                        .problem = problem,
                        .ranks = ranks};
      const Strategy* strategy = BuiltinStrategies().Find(variant.strategy).value();
      const auto plans = strategy->MakePlans(RequestOf(trial));
      if (absl::IsUnimplemented(plans.status())) continue;
      ASSERT_TRUE(plans.ok()) << plans.status();
      const auto result = RunRanks(*plans, inputs, {.kernel = kernel});
      ASSERT_TRUE(result.ok()) << result.status();
      for (const auto& [tensor, values] : result->outputs) {
        const double error = Error(values, truth.at(tensor));
        if (ranks == 1) {
          one_rank[tensor] = error;
        } else if (tensor != Tensor::kLse) {
          EXPECT_LE(error, 1.02 * one_rank[tensor]) << Describe(trial) << ", " << Name(tensor);
        }
      }
    }
  }
}

TEST(Strategies, RepeatedRunsAreBitwiseEqual) {
  const Problem problem = Causal(53, 4, 2, DType::kBFloat16);
  const Tensors inputs = RandomInputs(problem, 6);
  const Kernel* kernel = BuiltinKernels().Find("cpu_tiled").value();
  for (const Variant& variant : Variants()) {
    const Trial trial{
        .strategy = variant.strategy, .options = variant.options, .problem = problem, .ranks = 4};
    const auto plans =
        BuiltinStrategies().Find(variant.strategy).value()->MakePlans(RequestOf(trial));
    if (absl::IsUnimplemented(plans.status())) continue;
    ASSERT_TRUE(plans.ok()) << plans.status();
    const auto first = RunRanks(*plans, inputs, {.kernel = kernel});
    ASSERT_TRUE(first.ok()) << first.status();
    for (const int iterations : {1, 4}) {
      const auto again = RunRanks(*plans, inputs, {.kernel = kernel, .iterations = iterations});
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->outputs, first->outputs) << Describe(trial);
    }
  }
}

TEST(Strategies, RefuseAKernelThatCannotWriteWhatMustBeSummed) {
  const Problem problem = Causal(16, 8, 2, DType::kBFloat16);
  const auto supports = [&](const std::string& name, int ranks, PlanTraits kernel, bool backward) {
    const Strategy* strategy = BuiltinStrategies().Find(name).value();
    return strategy->Supports({.problem = problem,
                               .topology = {.ranks = ranks},
                               .options = ResolveOptions(name, {}, strategy->parameters()).value(),
                               .kernel = kernel,
                               .backward = backward});
  };
  const PlanTraits no_partials{.float32_partials = false};
  const PlanTraits no_gradients{.float32_gradients = false};
  for (const char* ring : {"ring", "ring_zigzag"}) {
    EXPECT_TRUE(supports(ring, 1, no_partials, true).ok());
    EXPECT_EQ(supports(ring, 2, no_partials, false).code(), absl::StatusCode::kUnimplemented);
    EXPECT_TRUE(supports(ring, 2, no_gradients, false).ok());
    EXPECT_EQ(supports(ring, 2, no_gradients, true).code(), absl::StatusCode::kUnimplemented);
  }
  EXPECT_TRUE(supports("all_gather", 2, no_partials, true).ok());
  EXPECT_EQ(supports("all_gather", 2, no_gradients, true).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(supports("ulysses", 2, no_gradients, true).ok());
  // Replicas of a kv head each have a part of its gradients.
  EXPECT_EQ(supports("ulysses", 4, no_gradients, true).code(), absl::StatusCode::kUnimplemented);
}

TEST(Strategies, SingleIsForOneRankAndNamesTheOthers) {
  const Strategy* single = BuiltinStrategies().Find("single").value();
  const absl::Status status =
      single->Supports({.problem = Causal(16, 2, 2), .topology = {.ranks = 2}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ring"));
}

TEST(Strategies, AnImpossibleTopologyOrProblemIsInvalid) {
  const Strategy* ring = BuiltinStrategies().Find("ring").value();
  EXPECT_EQ(ring->Supports({.problem = Causal(16, 2, 2), .topology = {.ranks = 0}}).code(),
            absl::StatusCode::kInvalidArgument);
  Problem uneven = Causal(16, 3, 2);
  EXPECT_EQ(ring->MakePlans({.problem = uneven, .topology = {.ranks = 2}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(StrategyRegistry, NamesTheNearestStrategy) {
  const absl::Status status = BuiltinStrategies().Find("ring_zigzga").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean 'ring_zigzag'"));
  EXPECT_EQ(BuiltinStrategies().List().size(), 5u);
}

TEST(StrategiesPage, TellsOfEveryStrategyAndParameter) {
  std::ifstream file("docs/strategies.md");
  ASSERT_TRUE(file.good()) << "run from the root of the sources";
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Strategy* strategy : BuiltinStrategies().List()) {
    EXPECT_THAT(page, HasSubstr("| `" + strategy->name() + "` |"));
    for (const Parameter& parameter : strategy->parameters()) {
      const Value& value = *parameter.default_value;
      const std::string text = std::holds_alternative<std::string>(value.data)
                                   ? std::get<std::string>(value.data)
                                   : std::to_string(std::get<int64_t>(value.data));
      EXPECT_THAT(page, HasSubstr("| `" + parameter.name + "` | `" + text + "` |"));
    }
  }
}

}  // namespace
}  // namespace lcab::cp
