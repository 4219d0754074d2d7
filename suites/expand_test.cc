#include "suites/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attention/flops.h"
#include "attention/problem.h"
#include "suites/conversion.h"
#include "suites/fake_kernels.h"
#include "suites/labels.h"
#include "suites/parse.h"

namespace lcab::suites {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Expansion> ExpandText(std::string_view text, const Catalogue& catalogue) {
  const absl::StatusOr<Suite> suite =
      ParseSuite({.file_name = "s.yaml", .text = std::string(text)}, catalogue);
  if (!suite.ok()) return suite.status();
  return Expand(*suite, catalogue);
}

absl::StatusOr<Expansion> ExpandText(std::string_view text) {
  return ExpandText(text, FakeCatalogue());
}

// The trials of a suite with one matrix, whose keys beyond shape and kernel are `keys`.
std::vector<v1::TrialSpec> Trials(const std::string& keys) {
  const absl::StatusOr<Expansion> expansion = ExpandText("name: t\nmatrices:\n  - " + keys + "\n");
  EXPECT_TRUE(expansion.ok()) << expansion.status();
  std::vector<v1::TrialSpec> trials;
  if (!expansion.ok()) return trials;
  for (const v1::CohortSpec& cohort : expansion->cohorts) {
    trials.insert(trials.end(), cohort.trials().begin(), cohort.trials().end());
  }
  EXPECT_EQ(static_cast<int64_t>(trials.size()), expansion->trials);
  return trials;
}

const std::string kEight = "shape: {q_heads: 8, head_dim: 64}\n    kernel: cpu_tiled\n    ";

TEST(Expand, EveryPointOfTheMatrixIsATrial) {
  const auto trials = Trials(R"(shape: {q_heads: 8, kv_heads: [2, 8], head_dim: 64}
    seq_len: [1K, 2K, 3K]
    mask: [full, causal]
    kernel: [cpu_tiled, cpu_reference]
    pass: [forward, backward])");
  EXPECT_EQ(trials.size(), 2U * 3 * 2 * 2 * 2);
  std::set<std::string> keys;
  for (const v1::TrialSpec& trial : trials) {
    keys.insert(trial.key());
    EXPECT_EQ(trial.unsupported_reason(), "");
  }
  EXPECT_EQ(keys.size(), trials.size());
}

TEST(Expand, ACohortSharesProblemPassAndGangAndDiffersInTheRest) {
  const absl::StatusOr<Expansion> expansion = ExpandText(R"(
name: t
matrices:
  - shape: {q_heads: 8, head_dim: 64}
    seq_len: 1K
    mask: [full, causal]
    kernel: [cpu_tiled, {name: cpu_tiled, tile: 32}]
    strategy: [ring, ring_zigzag]
    ranks: [2, 4]
    overlap: [true, false]
    pass: [forward, backward]
)");
  ASSERT_TRUE(expansion.ok()) << expansion.status();
  ASSERT_EQ(expansion->cohorts.size(), 2U * 2 * 2);  // masks, ranks, passes
  for (const v1::CohortSpec& cohort : expansion->cohorts) {
    EXPECT_EQ(cohort.trials_size(), 2 * 2 * 2);  // kernels, strategies, overlaps
    for (const v1::TrialSpec& trial : cohort.trials()) {
      EXPECT_EQ(trial.ranks(), cohort.ranks());
      EXPECT_EQ(trial.pass(), cohort.trials(0).pass());
      EXPECT_EQ(trial.problem().mask().name(), cohort.trials(0).problem().mask().name());
    }
  }
}

TEST(Expand, MatricesThatMeetInAProblemShareItsCohort) {
  const absl::StatusOr<Expansion> expansion = ExpandText(R"(
name: t
matrices:
  - {shape: {q_heads: 8, head_dim: 64}, seq_len: [1K, 2K], mask: full, kernel: cpu_tiled}
  - {shape: {q_heads: 8, kv_heads: 8, qk_head_dim: 64, v_head_dim: 64}, seq_len: 1024, mask: full,
     kernel: cpu_reference}
)");
  ASSERT_TRUE(expansion.ok()) << expansion.status();
  ASSERT_EQ(expansion->cohorts.size(), 2U);
  EXPECT_EQ(expansion->cohorts[0].trials_size(), 2);
}

TEST(Expand, KindsOfDevicesAreNotMixedInACohort) {
  Catalogue catalogue = FakeCatalogue();
  v1::KernelInfo info;
  info.set_name("cudnn");
  info.set_device_kind("cuda");
  ASSERT_TRUE(catalogue.Add(info).ok());
  const absl::StatusOr<Expansion> expansion = ExpandText(
      "name: t\nmatrices:\n  - {shape: {q_heads: 8, head_dim: 64}, seq_len: 1K, mask: full, "
      "kernel: [cpu_tiled, cudnn, cpu_reference]}\n",
      catalogue);
  ASSERT_TRUE(expansion.ok()) << expansion.status();
  ASSERT_EQ(expansion->cohorts.size(), 2U);
  EXPECT_EQ(expansion->cohorts[0].trials_size(), 2);
  EXPECT_EQ(expansion->cohorts[1].trials(0).kernel().name(), "cudnn");
}

TEST(Expand, DrawsOfARandomMaskAreTrialsOfTheirOwn) {
  const auto trials = Trials(kEight + "seq_len: 4K\n    mask: {name: causal_document, draws: 3}");
  ASSERT_EQ(trials.size(), 3U);
  std::set<uint64_t> digests;
  for (const v1::TrialSpec& trial : trials) {
    const absl::StatusOr<Problem> problem = MakeProblem(trial.problem());
    ASSERT_TRUE(problem.ok()) << problem.status();
    digests.insert(problem->mask->Digest());
  }
  EXPECT_EQ(digests.size(), 3U);
}

TEST(Expand, TokensPerRankGrowWithTheRanks) {
  const auto trials = Trials(kEight +
                             "seq_len: {per_rank: 1K}\n    mask: full\n    strategy: ring\n    "
                             "ranks: [1, 2, 4]");
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(trials[0].problem().q_tokens(), 1024);
  EXPECT_EQ(trials[1].problem().q_tokens(), 2048);
  EXPECT_EQ(trials[2].problem().q_tokens(), 4096);
}

TEST(Expand, AStrategyThatDoesNotFitIsARowWithItsReason) {
  const auto trials = Trials(kEight +
                             "seq_len: 1K\n    mask: full\n    strategy: [ring, ulysses]\n    "
                             "ranks: [3]");
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(trials[0].unsupported_reason(), "");
  EXPECT_THAT(trials[1].unsupported_reason(),
              AllOf(HasSubstr("strategy ulysses on 3 ranks"), HasSubstr("3 does not divide 8"),
                    HasSubstr("ranks that do: 1, 2, 4, 8")));
}

TEST(Expand, AKernelThatCannotIsARowWithItsReason) {
  const auto trials = Trials(R"(shape: {q_heads: 8, head_dim: [128, 256]}
    seq_len: 1K
    mask: full
    kernel: [cpu_tiled, cpu_reference])");
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_EQ(trials[0].unsupported_reason(), "");
  EXPECT_EQ(trials[1].unsupported_reason(), "");
  EXPECT_EQ(trials[2].unsupported_reason(), "");
  EXPECT_EQ(trials[3].unsupported_reason(),
            "kernel cpu_reference: head dims above 128 do not fit its tiles");
}

TEST(Expand, RanksThatDoNotFillTheirDevicesAreARowWithItsReason) {
  const auto trials = Trials(kEight +
                             "seq_len: 1K\n    mask: full\n    strategy: ring\n    ranks: [2, 3]\n"
                             "    ranks_per_device: 2");
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(trials[0].unsupported_reason(), "");
  EXPECT_THAT(trials[1].unsupported_reason(), HasSubstr("does not divide 3 ranks"));
}

TEST(Expand, OneDeviceAloneHasNothingToOverlap) {
  const auto trials = Trials(kEight +
                             "seq_len: 1K\n    mask: full\n    strategy: ring\n    ranks: "
                             "[1, 2]\n    overlap: [true, false]");
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(trials[0].ranks(), 1);
  EXPECT_TRUE(trials[1].overlap());
  EXPECT_FALSE(trials[2].overlap());
}

TEST(Expand, KeysDoNotDependOnHowTheSuiteIsWritten) {
  const auto one = Trials(kEight + "seq_len: 4K\n    mask: {name: sliding_window_causal}");
  const auto other = Trials(R"(seq_len: [4096]
    mask: [sliding_window_causal]
    kernel: [{tile: 64, name: cpu_tiled}]
    shape: [{dtype: bf16, v_head_dim: 64, kv_heads: 8, qk_head_dim: 64, q_heads: 8}])");
  ASSERT_EQ(one.size(), 1U);
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(one[0].key(), other[0].key());
}

TEST(Expand, KeysDifferInWhateverDecidesWhatIsMeasured) {
  std::set<std::string> keys;
  for (const char* axis :
       {"seq_len: 1K\n    mask: full", "seq_len: 1K\n    mask: causal",
        "seq_len: {q_tokens: 1K, k_tokens: 2K}\n    mask: full",
        "seq_len: 1K\n    mask: full\n    pass: backward",
        "seq_len: 1K\n    mask: full\n    operator: {name: softmax, softcap: 30}",
        "seq_len: 1K\n    mask: full\n    operator: {name: softmax, scale: 1}",
        "seq_len: 1K\n    mask: full\n    strategy: ring",
        "seq_len: 1K\n    mask: full\n    measure: {cache: warm}",
        "seq_len: 1K\n    mask: full\n    measure: {inputs: large_rows}",
        "seq_len: 1K\n    mask: full\n    measure: {mode: verify}"}) {
    for (const v1::TrialSpec& trial : Trials(kEight + axis)) keys.insert(trial.key());
  }
  EXPECT_EQ(keys.size(), 10U);
  // How long it is measured makes no other trial.
  for (const v1::TrialSpec& trial : Trials(
           kEight + "seq_len: 1K\n    mask: full\n    measure: {min_samples: 77, max_time: 9s}")) {
    keys.insert(trial.key());
  }
  EXPECT_EQ(keys.size(), 10U);
}

TEST(Expand, AMaskThatDoesNotFitItsTokensIsRefusedAtItsPlace) {
  const absl::StatusOr<Expansion> expansion = ExpandText(
      "name: t\nmatrices:\n  - shape: {q_heads: 8, head_dim: 64}\n    kernel: cpu_tiled\n"
      "    seq_len: [1K, 256]\n    mask: {name: causal_document, lengths: [300, 77]}\n");
  ASSERT_FALSE(expansion.ok());
  EXPECT_THAT(std::string(expansion.status().message()),
              AllOf(HasSubstr("s.yaml:6:11: with 256 query and 256 key tokens"),
                    HasSubstr("300 query and 300 key tokens")));
}

TEST(Expand, ASuiteWithTooManyTrialsIsRefusedAtOnce) {
  std::string list = "[1";
  for (int i = 2; i <= 1000; ++i) list += "," + std::to_string(i);
  list += "]";
  const absl::StatusOr<Expansion> expansion =
      ExpandText("name: t\nmatrices:\n  - shape: {q_heads: 8, head_dim: " + list +
                 "}\n    kernel: cpu_tiled\n    seq_len: " + list + "\n    mask: full\n");
  ASSERT_FALSE(expansion.ok());
  EXPECT_THAT(std::string(expansion.status().message()),
              HasSubstr("s.yaml:3:5: with this matrix the suite has more than 50000 trials"));
}

TEST(Expand, TokensOfAllRanksTogetherAreBounded) {
  const absl::StatusOr<Expansion> expansion = ExpandText(
      "name: t\nmatrices:\n  - shape: {q_heads: 8, head_dim: 64}\n    kernel: cpu_tiled\n"
      "    seq_len: {per_rank: 1G}\n    mask: full\n    strategy: ring\n    ranks: [1, 4]\n");
  ASSERT_FALSE(expansion.ok());
  EXPECT_THAT(std::string(expansion.status().message()), HasSubstr("on each of 4 ranks"));
}

// Case M1: w is an inclusive distance, for every way in which a suite can say it.
TEST(Expand, WindowsReachFromTheSuiteToTheAreaAsDistances) {
  const auto trials = Trials(kEight + R"(seq_len: 4096
    mask: {name: [sliding_window_causal, sliding_window_full], window: [1K, 0, 4095]})");
  std::vector<int64_t> areas;
  for (const v1::TrialSpec& trial : trials) {
    const absl::StatusOr<Problem> problem = MakeProblem(trial.problem());
    ASSERT_TRUE(problem.ok()) << problem.status();
    areas.push_back(problem->mask->Area(0));
  }
  // sliding_window_full with w = S - 1 is full.
  EXPECT_THAT(areas, ElementsAre(3'673'600, 4'096, 8'390'656, 7'343'104, 4'096, 4096 * 4096));
}

// Case M2: a prefix of p keys.
TEST(Expand, PrefixesReachFromTheSuiteToTheAreaAsCounts) {
  const auto trials =
      Trials(kEight + "seq_len: 256\n    mask: {name: prefix_lm_causal, prefix: [1, 100, 256]}");
  std::vector<int64_t> areas;
  for (const v1::TrialSpec& trial : trials) {
    const absl::StatusOr<Problem> problem = MakeProblem(trial.problem());
    ASSERT_TRUE(problem.ok()) << problem.status();
    areas.push_back(problem->mask->Area(0));
  }
  EXPECT_THAT(areas, ElementsAre(32'896, 37'846, 65'536));
}

// Case S1: lengths of queries and keys that differ, zero among them.
TEST(Expand, DocumentsWithoutQueriesOrKeysReachTheProblem) {
  const auto trials = Trials(R"(shape: {q_heads: 4, kv_heads: 1, head_dim: [256, 64]}
    kernel: cpu_tiled
    seq_len: {q_tokens: 377, k_tokens: 494}
    mask: {name: full_document, query_lengths: [0, 300, 77, 0], key_lengths: [130, 300, 0, 64]}
    pass: [forward, backward])");
  ASSERT_EQ(trials.size(), 4U);
  const absl::StatusOr<Problem> problem = MakeProblem(trials[0].problem());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->mask->Area(0), 90'000);
}

TEST(Expand, NoTokensOnOneSideIsATrialLikeOthers) {
  for (const char* tokens : {"{q_tokens: 0, k_tokens: 64}", "{q_tokens: 64, k_tokens: 0}"}) {
    EXPECT_EQ(Trials(kEight + "mask: full\n    seq_len: " + tokens).size(), 1U) << tokens;
  }
}

// Case S4: head dims of V apart from those of Q and K.
TEST(Expand, HeadDimsOfValuesReachTheFlops) {
  const auto trials = Trials(R"(shape: {q_heads: 16, kv_heads: 4, qk_head_dim: 192, v_head_dim: 128}
    kernel: cpu_tiled
    seq_len: 2K
    mask: causal
    strategy: ring
    ranks: 4
    pass: [forward, backward])");
  ASSERT_EQ(trials.size(), 2U);
  const absl::StatusOr<Problem> problem = MakeProblem(trials[0].problem());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(Flops(*problem, Pass::kForward), 21'485'322'240);
  EXPECT_EQ(Flops(*problem, Pass::kBackward), 55'861'837'824);
}

}  // namespace
}  // namespace lcab::suites
