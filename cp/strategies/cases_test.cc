// Failures that users of other systems have reported, as small inputs with known right values.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "attention/flops.h"
#include "attention/masks.h"
#include "cp/prove.h"
#include "cp/strategy.h"
#include "cp/testing/check_strategy.h"
#include "cp/testing/run_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace lcab::cp {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::shared_ptr<const Mask> Slices(int64_t tokens, const std::vector<Slice>& slices) {
  return std::make_shared<const Mask>(Mask::FromSlices(tokens, tokens, slices).value());
}

std::shared_ptr<const Mask> CausalDocuments(int64_t first, int64_t second) {
  const Options options = {{"lengths", Value{Value::List{Value{first}, Value{second}}}}};
  const int64_t tokens = first + second;
  return std::make_shared<const Mask>(
      MakeMask("causal_document", options, {.q_tokens = tokens, .k_tokens = tokens}).value());
}

const Kernel* Tiled() { return BuiltinKernels().Find("cpu_tiled").value(); }

std::vector<RankPlan> PlansOf(const Trial& trial) {
  return BuiltinStrategies().Find(trial.strategy).value()->MakePlans(RequestOf(trial)).value();
}

int64_t BytesSent(const Trial& trial, int rank, Pass pass) {
  return BuiltinStrategies().Find(trial.strategy).value()->BytesSent(RequestOf(trial), rank, pass);
}

absl::StatusOr<Proof> ProveTrial(const Trial& trial) {
  return Prove(PlansOf(trial), [&](int rank, Pass pass) { return BytesSent(trial, rank, pass); });
}

Options PerDocument() { return {{"per", Value{std::string("document")}}}; }

// The strategies that share a problem of `ranks` ranks with many heads, sharded by ranges.
std::vector<Trial> Contiguous(const Problem& problem, int ranks) {
  return {{.strategy = "ring", .problem = problem, .ranks = ranks},
          {.strategy = "all_gather", .problem = problem, .ranks = ranks},
          {.strategy = "ulysses", .problem = problem, .ranks = ranks}};
}

// Case S4: V's head dim differs from that of Q and K.
TEST(Cases, RingWithTwoHeadDimsGivesWhatOneDeviceGives) {
  const int64_t tokens = 2048;
  const Problem problem{.q_heads = 16,
                        .kv_heads = 4,
                        .qk_head_dim = 192,
                        .v_head_dim = 128,
                        .dtype = DType::kBFloat16,
                        .mask = Slices(tokens, {{0, tokens, 0, tokens, SliceKind::kCausal}})};
  EXPECT_EQ(Flops(problem, Pass::kForward), 21'485'322'240);
  EXPECT_EQ(Flops(problem, Pass::kBackward), 55'861'837'824);
  const Trial ring{.strategy = "ring", .problem = problem, .ranks = 4};
  const Trial one{.strategy = "single", .problem = problem, .ranks = 1};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(BytesSent(ring, rank, Pass::kForward), 3'932'160);
  }
  ASSERT_TRUE(ProveTrial(ring).ok());
  const Tensors inputs = RandomInputs(problem, 1);
  const auto shared = RunRanks(PlansOf(ring), inputs, {.kernel = Tiled()});
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_THAT(shared->forward_bytes, Each(3'932'160));
  const auto whole = RunRanks(PlansOf(one), inputs, {.kernel = Tiled()});
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const auto& [tensor, values] : whole->outputs) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto right = static_cast<double>(values[i]);
      difference += std::pow(static_cast<double>(shared->outputs.at(tensor)[i]) - right, 2);
      size += right * right;
    }
    EXPECT_LT(std::sqrt(difference / size), 0.005) << Name(tensor);
  }
}

// Case C1: the ring's backward pass must use each step's own K and V. With Q = 0 every key weighs
// the same, and all values are exact in bf16.
TEST(Cases, EachStepOfTheBackwardRingUsesItsOwnKeys) {
  const Problem problem{.q_heads = 1,
                        .kv_heads = 1,
                        .qk_head_dim = 64,
                        .v_head_dim = 64,
                        .dtype = DType::kBFloat16,
                        .mask = Slices(1024, {{0, 1024, 0, 1024, SliceKind::kFull}})};
  for (const std::string strategy : {"ring", "all_gather", "ring_zigzag"}) {
    const Trial trial{.strategy = strategy, .problem = problem, .ranks = 4};
    const std::vector<RankPlan> plans = PlansOf(trial);
    ASSERT_TRUE(ProveTrial(trial).ok());
    Tensors inputs;
    const size_t elements = size_t{1024} * 64;
    inputs[Tensor::kQ].assign(elements, 0);
    inputs[Tensor::kK].assign(elements, 0);
    inputs[Tensor::kDOut].assign(elements, 1);
    // On rank r every element of K and of V is r + 1.
    for (const RankPlan& plan : plans) {
      for (const Interval& run : plan.inputs[1].tokens.Intervals()) {
        const auto value = static_cast<float>(plan.rank + 1);
        std::fill(inputs[Tensor::kK].begin() + run.begin * 64,
                  inputs[Tensor::kK].begin() + run.end * 64, value);
      }
    }
    inputs[Tensor::kV] = inputs[Tensor::kK];
    for (const char* fault : {"", "stale_key"}) {
      const auto result = RunRanks(plans, inputs, {.kernel = Tiled(), .fault = fault});
      ASSERT_TRUE(result.ok()) << result.status();
      const Tensors& outputs = result->outputs;
      EXPECT_THAT(outputs.at(Tensor::kOut), Each(2.5F));
      EXPECT_THAT(outputs.at(Tensor::kLse), Each(testing::FloatNear(std::log(1024.F), 1e-5F)));
      EXPECT_THAT(outputs.at(Tensor::kDV), Each(1));
      EXPECT_THAT(outputs.at(Tensor::kDK), Each(0));
      // The planted fault shows in dQ, where there is more than one step.
      if (std::string(fault).empty() || strategy == "all_gather") {
        EXPECT_THAT(outputs.at(Tensor::kDQ), Each(10)) << strategy;
      } else {
        EXPECT_THAT(outputs.at(Tensor::kDQ), testing::Not(Each(10))) << strategy;
      }
    }
  }
}

// Case C2: documents whose lengths 2P does not divide keep all their tokens.
TEST(Cases, DocumentsThatTwoPDoesNotDivideKeepTheirLastTokens) {
  struct Input {
    int64_t first, second;
    int ranks;
  };
  for (const Input& input : {Input{699, 325, 4}, Input{7, 1017, 2}}) {
    const Problem problem{.q_heads = 4,
                          .kv_heads = 4,
                          .qk_head_dim = 64,
                          .v_head_dim = 64,
                          .dtype = DType::kBFloat16,
                          .mask = CausalDocuments(input.first, input.second)};
    if (input.first == 699) {
      EXPECT_EQ(problem.mask->Area(0), 297'625);
    }
    const Tensors inputs = RandomInputs(problem, 2);
    const auto whole =
        RunRanks(PlansOf({.strategy = "single", .problem = problem}), inputs, {.kernel = Tiled()});
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (const Options& options : {Options{}, PerDocument()}) {
      const Trial trial{.strategy = "ring_zigzag",
                        .options = options,
                        .problem = problem,
                        .ranks = input.ranks,
                        .run = {.kernel = Tiled(), .iterations = 2}};
      CheckTrial(trial, inputs, whole->outputs);
      const auto first = RunRanks(PlansOf(trial), inputs, {.kernel = Tiled()});
      const auto second = RunRanks(PlansOf(trial), inputs, {.kernel = Tiled()});
      ASSERT_TRUE(first.ok() && second.ok());
      EXPECT_EQ(first->outputs, second->outputs);
    }
  }
}

// Case C3: ranks whose rows see nothing.
TEST(Cases, RanksWithoutAnyPairFollowTheRuleOfNoKeys) {
  const Problem problem{.q_heads = 4,
                        .kv_heads = 4,
                        .qk_head_dim = 16,
                        .v_head_dim = 16,
                        .dtype = DType::kBFloat16,
                        .mask = Slices(1024, {{0, 512, 0, 512, SliceKind::kCausal}})};
  const Tensors inputs = RandomInputs(problem, 3);
  for (const Trial& trial : Contiguous(problem, 4)) {
    const absl::StatusOr<Proof> proof = ProveTrial(trial);
    ASSERT_TRUE(proof.ok()) << proof.status();
    if (trial.strategy != "ulysses") {  // which shares heads: all ranks have equal work
      std::vector<int64_t> areas;
      for (const RankFacts& facts : proof->ranks) areas.push_back(facts.area / problem.q_heads);
      EXPECT_EQ(areas, (std::vector<int64_t>{32'896, 98'432, 0, 0}));
      const double mean = static_cast<double>(std::reduce(areas.begin(), areas.end())) / 4;
      EXPECT_NEAR(static_cast<double>(*std::max_element(areas.begin(), areas.end())) / mean, 2.998,
                  0.0005);
    }
    const auto result = RunRanks(PlansOf(trial), inputs, {.kernel = Tiled()});
    ASSERT_TRUE(result.ok()) << result.status();
    const auto lower_half = [&](Tensor tensor) {
      const std::vector<float>& all = result->outputs.at(tensor);
      return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                                all.end());
    };
    for (const Tensor tensor : {Tensor::kOut, Tensor::kDQ, Tensor::kDK, Tensor::kDV}) {
      EXPECT_THAT(lower_half(tensor), Each(0)) << trial.strategy << ", " << Name(tensor);
      for (const float value : result->outputs.at(tensor)) ASSERT_TRUE(std::isfinite(value));
    }
    const std::vector<float>& lse = result->outputs.at(Tensor::kLse);
    for (size_t head = 0; head < 4; ++head) {
      for (size_t row = 0; row < 1024; ++row) {
        const float value = lse[head * 1024 + row];
        if (row < 512) {
          ASSERT_TRUE(std::isfinite(value));
        } else {
          ASSERT_EQ(value, -std::numeric_limits<float>::infinity());
        }
      }
    }
  }
}

// Case C4 (a): each kv head on 4 of 8 ranks; dK and dV are the sum over the replicas.
TEST(Cases, UlyssesSumsTheGradientsOfReplicatedKvHeads) {
  Problem problem{.q_heads = 16,
                  .kv_heads = 2,
                  .qk_head_dim = 128,
                  .v_head_dim = 128,
                  .dtype = DType::kBFloat16,
                  .mask = Slices(8192, {{0, 8192, 0, 8192, SliceKind::kCausal}})};
  const Trial large{.strategy = "ulysses", .problem = problem, .ranks = 8};
  EXPECT_EQ(BytesSent(large, 3, Pass::kForward), 11'010'048);
  ASSERT_TRUE(ProveTrial(large).ok());

  // The numbers at a length that runs in no time.
  problem.mask = Slices(256, {{0, 256, 0, 256, SliceKind::kCausal}});
  const Tensors inputs = RandomInputs(problem, 4);
  EXPECT_TRUE(CheckTrial(
      {.strategy = "ulysses", .problem = problem, .ranks = 8, .run = {.kernel = Tiled()}}, inputs,
      Truth(problem, inputs)));
}

// Case C4 (b) and (c): heads that the ranks do not divide are refused, with the reason; what comes
// next in the same process is untouched by that.
TEST(Cases, UlyssesRefusesHeadsThatRanksDoNotDivide) {
  Problem problem{.q_heads = 28,
                  .kv_heads = 7,
                  .qk_head_dim = 64,
                  .v_head_dim = 64,
                  .dtype = DType::kBFloat16,
                  .mask = Slices(512, {{0, 512, 0, 512, SliceKind::kCausal}})};
  const Strategy* ulysses = BuiltinStrategies().Find("ulysses").value();
  const absl::Status refused =
      ulysses->MakePlans({.problem = problem, .topology = {.ranks = 2}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 does not divide 7"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ranks that do: 1, 7, 14, 28"));

  problem.q_heads = problem.kv_heads = 12;
  problem.mask = Slices(60, {{0, 60, 0, 60, SliceKind::kCausal}});
  const Trial trial{
      .strategy = "ulysses", .problem = problem, .ranks = 4, .run = {.kernel = Tiled()}};
  for (const RankPlan& plan : PlansOf(trial)) {
    EXPECT_EQ(plan.forward_outputs[1].heads.size(), 3);
  }
  const Tensors inputs = RandomInputs(problem, 5);
  EXPECT_TRUE(CheckTrial(trial, inputs, Truth(problem, inputs)));
}

TEST(Cases, UlyssesNamesTheQueryHeadsThatRanksDoNotDivide) {
  const Strategy* ulysses = BuiltinStrategies().Find("ulysses").value();
  const Problem problem{
      .q_heads = 8, .kv_heads = 2, .mask = Slices(64, {{0, 64, 0, 64, SliceKind::kFull}})};
  const absl::Status refused = ulysses->Supports({.problem = problem, .topology = {.ranks = 3}});
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(HasSubstr("3 does not divide 8 query heads"),
                             HasSubstr("ranks that do: 1, 2, 4, 8")));
}

}  // namespace
}  // namespace lcab::cp
