#include "suites/reproduce.h"

#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "suites/catalogue.h"
#include "suites/expand.h"
#include "suites/parse.h"
#include "suites/source.h"

namespace lcab::suites {
namespace {

absl::StatusOr<Expansion> ExpandText(const std::string& text, const Catalogue& catalogue) {
  const absl::StatusOr<Suite> suite = ParseSuite({.file_name = "s.yaml", .text = text}, catalogue);
  if (!suite.ok()) return suite.status();
  return Expand(*suite, catalogue);
}

// Each trial of the suite, written as a suite of its own, is that trial again.
void ExpectEachComesBack(const std::string& text) {
  const Catalogue catalogue = Catalogue::Builtin();
  const absl::StatusOr<Expansion> all = ExpandText(text, catalogue);
  ASSERT_TRUE(all.ok()) << all.status();
  for (const v1::CohortSpec& cohort : all->cohorts) {
    for (const v1::TrialSpec& trial : cohort.trials()) {
      const absl::StatusOr<std::string> alone = SuiteText(trial);
      ASSERT_TRUE(alone.ok()) << alone.status();
      const absl::StatusOr<Expansion> again = ExpandText(*alone, catalogue);
      ASSERT_TRUE(again.ok()) << again.status() << *alone;
      ASSERT_EQ(again->trials, 1) << *alone;
      const v1::TrialSpec& same = again->cohorts[0].trials(0);
      EXPECT_EQ(same.key(), trial.key());
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(same, trial))
          << same.DebugString() << trial.DebugString();
    }
  }
}

TEST(SuiteText, EveryTrialOfTheSuitesThatShipComesBack) {
  for (const ShippedSuite& shipped : ShippedSuites()) {
    SCOPED_TRACE(shipped.name);
    ExpectEachComesBack(std::string(shipped.text));
  }
}

TEST(SuiteText, DrawsParametersAndOddValuesComeBack) {
  ExpectEachComesBack(R"(
name: odd
seed: 9223372036854775807
measure: {min_samples: 3, max_time: 1500ms, precision: 0.0123, cache: warm, inputs: correlated}
matrices:
  - shape: {q_heads: 6, kv_heads: 3, qk_head_dim: 24, v_head_dim: 40, dtype: fp32}
    operator: [{name: softmax, scale: 0.1, softcap: 30}, softmax]
    seq_len: [{q_tokens: 160, k_tokens: 96}]
    mask:
      - full
      - {name: slices, slices: [[0, 160, 0, 96, causal]]}
    kernel: [cpu_tiled, {name: test_crash, call: 3}]
    pass: [forward, backward]
    measure: {mode: verify}
  - shape: {q_heads: 4, head_dim: 16}
    seq_len: 1K
    mask:
      - {name: causal_document, documents: pile, draws: 3}
      - {name: causal_document, lengths: [699, 325]}
      - {name: causal_document, histogram: [[1, 512, 3], [512, 4K, 1.5]], draws: 2}
      - {name: sliding_window_causal, window: 1}
    kernel: cpu_tiled
    strategy: [ring, ring_zigzag]
    ranks: [2, 4]
    ranks_per_device: [1, 2]
    overlap: [true, false]
)");
}

TEST(SuiteText, AValueOfAKindThatThisBuildDoesNotKnowIsRefused) {
  v1::TrialSpec trial;
  (*trial.mutable_kernel()->mutable_options())["x"];  // of no kind
  EXPECT_EQ(SuiteText(trial).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lcab::suites
