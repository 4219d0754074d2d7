#include "measurement/row_selection.h"

#include <algorithm>
#include <memory>
#include <set>

#include "attention/masks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

Problem MakeProblem(const std::string& mask, int64_t tokens, int64_t q_heads, int64_t kv_heads) {
  Problem problem;
  problem.q_heads = q_heads;
  problem.kv_heads = kv_heads;
  problem.mask = std::make_shared<const Mask>(
      MakeMask(mask, {}, {.q_tokens = tokens, .k_tokens = tokens, .kv_heads = kv_heads, .seed = 1})
          .value());
  return problem;
}

TEST(RowSelectionTest, EveryStratumOfEveryHeadGivesARowAndAKey) {
  const Problem problem = MakeProblem("causal", 1000, 4, 2);
  const RowSelection selection = SelectRows(problem, Pass::kBackward, /*seed=*/3);
  ASSERT_EQ(selection.rows.size(), 4U);
  ASSERT_EQ(selection.keys.size(), 2U);
  for (const auto* of_heads : {&selection.rows, &selection.keys}) {
    for (const std::vector<int64_t>& tokens : *of_heads) {
      EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
      std::set<int64_t> strata;
      for (const int64_t token : tokens) {
        EXPECT_GE(token, 0);
        EXPECT_LT(token, 1000);
        strata.insert(token / 64);
      }
      EXPECT_EQ(strata.size(), 16U);
      EXPECT_EQ(tokens.front(), 0);
      EXPECT_EQ(tokens.back(), 999);
    }
  }
  EXPECT_NE(selection.rows[0], selection.rows[1]);
}

TEST(RowSelectionTest, EdgesOfTheMaskAndTheRowsBeforeThemAreIn) {
  const Mask mask = Mask::FromSlices(1000, 1000,
                                     std::vector<Slice>{{0, 333, 0, 333, SliceKind::kCausal},
                                                        {333, 1000, 333, 1000, SliceKind::kFull}})
                        .value();
  Problem problem;
  problem.mask = std::make_shared<const Mask>(mask);
  const RowSelection selection = SelectRows(problem, Pass::kBackward, 1);
  EXPECT_THAT(selection.rows[0], testing::IsSupersetOf({0, 332, 333, 999}));
  EXPECT_THAT(selection.keys[0], testing::IsSupersetOf({0, 332, 333, 999}));
}

TEST(RowSelectionTest, SeedDrawsTheRowsTheSameForAll) {
  const Problem problem = MakeProblem("full", 500, 2, 2);
  EXPECT_EQ(SelectRows(problem, Pass::kForward, 1).rows,
            SelectRows(problem, Pass::kForward, 1).rows);
  EXPECT_NE(SelectRows(problem, Pass::kForward, 1).rows,
            SelectRows(problem, Pass::kForward, 2).rows);
  EXPECT_EQ(SelectRows(problem, Pass::kForward, 1).keys_selected(), 0);
}

TEST(RowSelectionTest, LongSequencesStayWithinTheBudgetAndCoverAllHeads) {
  const Problem problem = MakeProblem("causal", 65536, 8, 8);
  const SelectionBudget budget;
  const RowSelection selection = SelectRows(problem, Pass::kForward, 1, budget);
  double cost = 0;
  for (const auto& rows : selection.rows) {
    EXPECT_GE(rows.size(), 3U);
    for (const int64_t row : rows) cost += 2.0 * 128 * static_cast<double>(row + 1);
  }
  // Rows 0 and the last are always in.
  EXPECT_LT(cost, budget.reference + 8 * 2.0 * 128 * 65536);
  EXPECT_GT(cost, budget.reference / 4);
}

TEST(RowSelectionTest, KeysAreLeftToTheProbeWhereTheirStatisticsWouldTakeForever) {
  const Problem problem = MakeProblem("full", 8192, 4, 2);
  SelectionBudget budget;
  budget.statistics = 1;
  EXPECT_GT(SelectRows(problem, Pass::kBackward, 1, budget).keys_selected(), 0);  // one head
  budget.statistics_ceiling = 1;
  const RowSelection selection = SelectRows(problem, Pass::kBackward, 1, budget);
  EXPECT_EQ(selection.keys_selected(), 0);
  EXPECT_GT(selection.rows_selected(), 0);
}

TEST(RowSelectionTest, NoTokensGiveNoRows) {
  Problem problem;
  problem.mask =
      std::make_shared<const Mask>(Mask::Create(0, 5, std::vector<HeadGroup>(1)).value());
  const RowSelection selection = SelectRows(problem, Pass::kBackward, 1);
  EXPECT_EQ(selection.rows_selected(), 0);
  EXPECT_GE(selection.keys_selected(), 2);  // the first and the last
}

}  // namespace
}  // namespace lcab::measurement
