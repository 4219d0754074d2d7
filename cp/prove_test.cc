#include "cp/prove.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cp/strategy.h"
#include "cp/testing/check_strategy.h"
#include "cp/testing/mutations.h"
#include "cp/testing/run_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace lcab::cp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const Mask> Slices(int64_t tokens, const std::vector<Slice>& slices) {
  return std::make_shared<const Mask>(Mask::FromSlices(tokens, tokens, slices).value());
}

Problem SmallProblem(std::shared_ptr<const Mask> mask) {
  return {.q_heads = 4,
          .kv_heads = 2,
          .qk_head_dim = 3,
          .v_head_dim = 2,
          .dtype = DType::kBFloat16,
          .mask = std::move(mask)};
}

std::vector<RankPlan> PlansOf(const Trial& trial) {
  return BuiltinStrategies().Find(trial.strategy).value()->MakePlans(RequestOf(trial)).value();
}

absl::StatusOr<Proof> ProveTrial(const Trial& trial, const std::vector<RankPlan>& plans) {
  const Strategy* strategy = BuiltinStrategies().Find(trial.strategy).value();
  const PlanRequest request = RequestOf(trial);
  return Prove(plans,
               [&](int rank, Pass pass) { return strategy->BytesSent(request, rank, pass); });
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// What became of the breaks of one kind.
struct Tally {
  int caught = 0, harmless = 0;
};

class Mutations : public testing::TestWithParam<Trial> {};

// Every break is caught, or gives the right numbers and bytes when it is run.
TEST_P(Mutations, EveryBreakIsCaughtOrHarmless) {
  const Trial& trial = GetParam();
  const std::vector<RankPlan> plans = PlansOf(trial);
  ASSERT_TRUE(ProveTrial(trial, plans).ok());
  const Tensors inputs = RandomInputs(trial.problem, 1);
  const Kernel* kernel = BuiltinKernels().Find("cpu_reference").value();
  const absl::StatusOr<RunResult> right = RunRanks(plans, inputs, {.kernel = kernel});
  ASSERT_TRUE(right.ok()) << right.status();

  std::map<Break, Tally> tallies;
  for (int kind = 0; kind < kBreaks; ++kind) {
    const auto broken_how = static_cast<Break>(kind);
    Tally& tally = tallies[broken_how];
    ForEachBreak(
        plans, broken_how, [&](const std::string& what, const std::vector<RankPlan>& broken) {
          const absl::StatusOr<Proof> proof = ProveTrial(trial, broken);
          if (!proof.ok()) {
            EXPECT_EQ(proof.status().code(), absl::StatusCode::kFailedPrecondition) << what;
            EXPECT_FALSE(proof.status().message().empty());
            ++tally.caught;
            return;
          }
          ++tally.harmless;
          const absl::StatusOr<RunResult> run = RunRanks(broken, inputs, {.kernel = kernel});
          ASSERT_TRUE(run.ok()) << Name(broken_how) << ", " << what << ": " << run.status();
          EXPECT_EQ(run->forward_bytes, right->forward_bytes) << what;
          EXPECT_EQ(run->backward_bytes, right->backward_bytes) << what;
          for (const auto& [tensor, values] : right->outputs) {
            EXPECT_TRUE(run->outputs.at(tensor) == values)
                << Name(broken_how) << ", " << what << " is not caught, and changes "
                << Name(tensor);
          }
        });
    RecordProperty(Name(broken_how), std::to_string(tally.caught) + " caught, " +
                                         std::to_string(tally.harmless) + " harmless");
  }
  // What cannot be harmless.
  for (const Break never : {Break::kForgetDependency, Break::kShiftTokens,
                            Break::kChangeTargetHeads, Break::kChangePeer, Break::kDropMessage,
                            Break::kNarrowBuffer, Break::kChangeHolding, Break::kChangeFill}) {
    EXPECT_EQ(tallies[never].harmless, 0) << Name(never);
  }
  EXPECT_GE(tallies[Break::kDropStep].caught, 3);
}

Options Text(const std::string& name, const std::string& value) { return {{name, Value{value}}}; }

std::vector<Trial> Trials() {
  const auto causal = SmallProblem(Slices(11, {{0, 11, 0, 11, SliceKind::kCausal}}));
  const auto documents = SmallProblem(
      Slices(13, {{0, 7, 0, 7, SliceKind::kCausal}, {7, 13, 7, 13, SliceKind::kFull}}));
  // Rank 1 of 2 has nothing to do.
  const auto half_empty = SmallProblem(Slices(10, {{0, 5, 0, 5, SliceKind::kCausal}}));
  return {
      {.strategy = "single", .problem = causal, .ranks = 1},
      {.strategy = "ring", .problem = causal, .ranks = 3},
      {.strategy = "ring_zigzag",
       .options = Text("per", "document"),
       .problem = documents,
       .ranks = 2},
      {.strategy = "all_gather", .problem = documents, .ranks = 3},
      {.strategy = "ulysses", .problem = causal, .ranks = 2},
      {.strategy = "ulysses", .problem = causal, .ranks = 4},
      {.strategy = "ring", .problem = causal, .ranks = 2, .overlap = false},
      {.strategy = "ring", .problem = half_empty, .ranks = 2},
  };
}

INSTANTIATE_TEST_SUITE_P(Plans, Mutations, testing::ValuesIn(Trials()));

Trial RingTrial(int ranks, bool overlap = true) {
  return {.strategy = "ring",
          .problem = SmallProblem(Slices(12, {{0, 12, 0, 12, SliceKind::kCausal}})),
          .ranks = ranks,
          .overlap = overlap};
}

// The last step of a kind.
template <typename T>
int LastStep(const std::vector<Step>& steps) {
  int last = -1;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::holds_alternative<T>(steps[i].action)) last = static_cast<int>(i);
  }
  return last;
}

TEST(Prove, NamesThePlaceAndThePairsThatAreMissing) {
  const Trial trial = RingTrial(3);
  std::vector<RankPlan> plans = PlansOf(trial);
  // Rank 1 attends to its own keys and to those of rank 0, and merges: now it forgets the second.
  const int merge = LastStep<Merge>(plans[1].forward);
  ASSERT_GE(merge, 0);
  plans[1].forward[static_cast<size_t>(merge)].action = Fill{};
  std::get<Fill>(plans[1].forward[static_cast<size_t>(merge)].action).to =
      plans[1].forward_outputs.front().view;
  EXPECT_THAT(Message(ProveTrial(trial, plans).status()),
              AllOf(HasSubstr("rank 1, forward"), HasSubstr("out of tokens [4,8)"),
                    HasSubstr("having seen keys [4,8)"), HasSubstr("query head 0")));
}

TEST(Prove, SaysWhoWaitsForWhomInADeadlock) {
  const Trial trial = RingTrial(3);
  std::vector<RankPlan> plans = PlansOf(trial);
  const int exchange = LastStep<Exchange>(plans[2].forward);
  auto& messages = std::get<Exchange>(plans[2].forward[static_cast<size_t>(exchange)].action);
  messages.sends.clear();
  messages.receives.clear();
  EXPECT_THAT(Message(ProveTrial(trial, plans).status()),
              AllOf(HasSubstr("waits for ever"), HasSubstr("rank 2 does not come to")));
}

TEST(Prove, SingleSendsThatOnlyStreamsWouldResolveDeadlockOnOneStream) {
  // Both ranks first send, then receive: as rendezvous neither send completes, on whatever streams
  // the two are when the receive waits for the send.
  const Trial trial = RingTrial(2);
  std::vector<RankPlan> plans = PlansOf(trial);
  for (RankPlan& plan : plans) {
    const int index = LastStep<Exchange>(plan.forward);
    Step receive = plan.forward[static_cast<size_t>(index)];
    std::get<Exchange>(plan.forward[static_cast<size_t>(index)].action).receives.clear();
    std::get<Exchange>(receive.action).sends.clear();
    for (Step& step : plan.forward) {
      for (int& after : step.after) after += after >= index ? 1 : 0;
    }
    plan.forward.insert(plan.forward.begin() + index + 1, receive);
  }
  EXPECT_THAT(Message(ProveTrial(trial, plans).status()), HasSubstr("waits for ever"));
}

TEST(Prove, SaysWhichStepsRace) {
  const Trial trial = RingTrial(3);
  std::vector<RankPlan> plans = PlansOf(trial);
  for (Step& step : plans[0].backward) {
    if (std::holds_alternative<Exchange>(step.action)) step.after.clear();
  }
  EXPECT_THAT(
      Message(ProveTrial(trial, plans).status()),
      AllOf(HasSubstr("rank 0, backward"), HasSubstr("while step"), HasSubstr("may still")));
}

TEST(Prove, HoldsThePlanToTheFormula) {
  const Trial trial = RingTrial(2);
  const absl::Status status =
      Prove(PlansOf(trial), [](int, Pass) -> int64_t { return 17; }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  // 6 tokens x 2 kv heads x (3 + 2) channels x 2 bytes.
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("rank 0, forward"), HasSubstr("120 bytes"), HasSubstr("17")));
}

TEST(Prove, ReportsAreaBytesAndPeakOfEachRank) {
  const Trial trial = RingTrial(2);
  const std::vector<RankPlan> plans = PlansOf(trial);
  const absl::StatusOr<Proof> proof = ProveTrial(trial, plans);
  ASSERT_TRUE(proof.ok()) << proof.status();
  // Causal over 12 tokens, 4 heads: rows 0-5 see 21 pairs, rows 6-11 see 57.
  EXPECT_EQ(proof->ranks[0].area, 4 * 21);
  EXPECT_EQ(proof->ranks[1].area, 4 * 57);
  EXPECT_EQ(proof->ranks[1].forward_bytes_sent, 120);
  // K and V once, and the gradients of 12 tokens in fp32.
  EXPECT_EQ(proof->ranks[1].backward_bytes_sent, 120 + 12 * 2 * 5 * 4);
  EXPECT_EQ(proof->ranks[1].peak_bytes, plans[1].slab_bytes);
  EXPECT_EQ(proof->digest, Digest(plans));
}

TEST(Prove, RefusesNoPlansAtAll) {
  EXPECT_EQ(Prove({}, [](int, Pass) -> int64_t { return 0; }).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lcab::cp
