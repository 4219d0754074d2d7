#include "cp/plan.h"

#include <memory>
#include <set>
#include <vector>

#include "cp/builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

TEST(ContiguousBytes, WholeRowsAreOnePieceAndPartsOfRowsAreNot) {
  const Buffer buffer{.rows = 10, .heads = 4, .dim = 8, .dtype = DType::kBFloat16};
  EXPECT_EQ(ContiguousBytes(buffer, Part(0, {2, 5}, {0, 4})), (Interval{2 * 64, 5 * 64}));
  EXPECT_EQ(ContiguousBytes(buffer, Part(0, {2, 5}, {0, 2})), std::nullopt);
  EXPECT_EQ(ContiguousBytes(buffer, Part(0, {2, 3}, {1, 3})), (Interval{2 * 64 + 16, 2 * 64 + 48}));
  EXPECT_EQ(ContiguousBytes(buffer, Part(0, {2, 2}, {0, 4})), (Interval{0, 0}));
  // Runs that touch are one; runs that do not, or are out of order, are not.
  EXPECT_EQ(ContiguousBytes(buffer, {.buffer = 0, .rows = {{1, 2}, {2, 4}}, .heads = {{0, 4}}}),
            (Interval{64, 256}));
  EXPECT_EQ(ContiguousBytes(buffer, {.buffer = 0, .rows = {{2, 4}, {1, 2}}, .heads = {{0, 4}}}),
            std::nullopt);
  EXPECT_EQ(ContiguousBytes(buffer, {.buffer = 0, .rows = {{1, 2}, {3, 4}}, .heads = {{0, 4}}}),
            std::nullopt);
}

TEST(ContiguousBytes, RowStatisticsLieByHeads) {
  const Buffer stat{.rows = 10, .heads = 4, .dim = 1, .head_major = true};
  EXPECT_EQ(ContiguousBytes(stat, Part(0, {0, 10}, {1, 3})), (Interval{40, 120}));
  EXPECT_EQ(ContiguousBytes(stat, Part(0, {2, 5}, {1, 2})), (Interval{48, 60}));
  EXPECT_EQ(ContiguousBytes(stat, Part(0, {2, 5}, {1, 3})), std::nullopt);
}

RankPlan SomePlan() {
  RankPlan plan;
  const std::vector<Slice> slices = {{0, 4, 0, 4, SliceKind::kCausal}};
  plan.problems = {{.q_heads = 2,
                    .kv_heads = 1,
                    .mask = std::make_shared<const Mask>(Mask::FromSlices(4, 4, slices).value())}};
  const int a = Declare(plan, {.name = "a", .rows = 4, .heads = 2, .dim = 64});
  const int b = Declare(plan, {.name = "b", .rows = 4, .heads = 2, .dim = 64});
  plan.inputs = {{Tensor::kQ, 0, TokenSet::Range(0, 4), {0, 2}, All(plan, a)}};
  plan.forward = {{.action = Copy{.to = All(plan, b), .from = All(plan, a)}},
                  {.after = {0}, .action = Fill{.to = All(plan, a)}}};
  return plan;
}

TEST(Digest, IsThatOfTheContentWhateverTheObject) {
  EXPECT_EQ(Digest({SomePlan()}), Digest({SomePlan()}));
}

TEST(Digest, ChangesWithEveryField) {
  const std::vector<std::function<void(RankPlan&)>> changes = {
      [](RankPlan&) {},
      [](RankPlan& p) { p.rank = 1; },
      [](RankPlan& p) { p.ranks = 2; },
      [](RankPlan& p) { p.streams = 2; },
      [](RankPlan& p) { p.communicators = 1; },
      [](RankPlan& p) { p.slab_bytes = 1; },
      [](RankPlan& p) { p.problems[0].q_heads = 4; },
      [](RankPlan& p) { p.problems[0].op = Softmax{.softcap = 3}; },
      [](RankPlan& p) { p.problems[0].mask = std::make_shared<const Mask>(); },
      [](RankPlan& p) { p.buffers[0].name = "c"; },
      [](RankPlan& p) { p.buffers[1].offset = 256; },
      [](RankPlan& p) { p.buffers[1].role = BufferRole::kOut; },
      [](RankPlan& p) { p.buffers[0].dtype = DType::kBFloat16; },
      [](RankPlan& p) { p.inputs[0].tokens = TokenSet::Range(1, 5); },
      [](RankPlan& p) { p.forward_outputs = p.inputs; },
      [](RankPlan& p) { p.backward = p.forward; },
      [](RankPlan& p) { p.forward[1].after.clear(); },
      [](RankPlan& p) { p.forward[1].stream = 1; },
      [](RankPlan& p) { std::get<Fill>(p.forward[1].action).value = 1; },
      [](RankPlan& p) {
        std::get<Copy>(p.forward[0].action).to.rows = {{0, 3}};
      },
      [](RankPlan& p) {
        p.forward[0].action = Add{.to = std::get<Copy>(p.forward[0].action).to,
                                  .from = std::get<Copy>(p.forward[0].action).from};
      },
  };
  std::set<uint64_t> digests;
  for (const auto& change : changes) {
    RankPlan plan = SomePlan();
    change(plan);
    digests.insert(Digest({plan}));
  }
  EXPECT_EQ(digests.size(), changes.size());
  EXPECT_NE(Digest({SomePlan(), SomePlan()}), Digest({SomePlan()}));
}

TEST(Place, SaysRankPassStepAndStream) {
  const RankPlan plan = SomePlan();
  EXPECT_EQ(Place(plan, Pass::kForward, 1), "rank 0, forward, step 1 (Fill on stream 0)");
  EXPECT_EQ(Place(plan, Pass::kBackward, 0), "rank 0, backward");
  EXPECT_EQ(Describe(plan, Part(1, {1, 3}, {0, 2})), "b[1,3) heads [0,2)");
}

}  // namespace
}  // namespace lcab::cp
