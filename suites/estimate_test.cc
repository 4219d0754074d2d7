#include "suites/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "suites/expand.h"
#include "suites/parse.h"

namespace lcab::suites {
namespace {

using ::testing::HasSubstr;

std::vector<v1::TrialSpec> Trials(const std::string& matrix) {
  const Catalogue catalogue = Catalogue::Builtin();
  const absl::StatusOr<Suite> suite = ParseSuite(
      {.file_name = "s.yaml", .text = "name: t\nmatrices:\n  - " + matrix + "\n"}, catalogue);
  EXPECT_TRUE(suite.ok()) << suite.status();
  const absl::StatusOr<Expansion> expansion = Expand(suite.value(), catalogue);
  EXPECT_TRUE(expansion.ok()) << expansion.status();
  std::vector<v1::TrialSpec> trials;
  for (const v1::CohortSpec& cohort : expansion.value().cohorts) {
    trials.insert(trials.end(), cohort.trials().begin(), cohort.trials().end());
  }
  return trials;
}

Estimate Of(const v1::TrialSpec& trial) {
  Calibration calibration(1);
  const absl::StatusOr<Estimate> estimate = EstimateTrial(trial, Catalogue::Builtin(), calibration);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.value();
}

// Case S4: head dims of V apart; bytes by the formula of rings, (P - 1) n Hkv (D + Dv) b a rank.
TEST(Estimate, WorkAndBytesAreExact) {
  const auto trials =
      Trials(R"({shape: {q_heads: 16, kv_heads: 4, qk_head_dim: 192, v_head_dim: 128},
     seq_len: 2K, mask: causal, kernel: cpu_tiled, strategy: ring, ranks: 4, pass: [forward, backward]})");
  const Estimate forward = Of(trials.at(0));
  EXPECT_EQ(forward.area, int64_t{2048} * 2049 / 2 * 16);
  EXPECT_EQ(forward.flops, 21'485'322'240);
  EXPECT_EQ(forward.bytes_sent, 4 * 3'932'160);
  EXPECT_EQ(Of(trials.at(1)).flops, 55'861'837'824);
}

// Case T5: P ranks on P times the tokens are another problem than one rank on its share.
TEST(Estimate, AShareOfAProblemIsNotTheProblemOfOneRank) {
  const auto trials =
      Trials(R"({shape: {q_heads: 64, kv_heads: 8, head_dim: 128}, seq_len: {per_rank: 8K},
     mask: full, kernel: cpu_tiled, strategy: ring, ranks: [1, 8]})");
  const Estimate one = Of(trials.at(0));
  const Estimate eight = Of(trials.at(1));
  EXPECT_EQ(one.flops, 2'199'023'255'552);      // 2.1990e12
  EXPECT_EQ(eight.flops, 140'737'488'355'328);  // 1.40737e14
  EXPECT_EQ(eight.flops / 8, 8 * one.flops);    // 1.7592e13 a rank
}

TEST(Estimate, MemoryHoldsAtLeastTheTensors) {
  const auto trials = Trials(R"({shape: {q_heads: 8, kv_heads: 2, head_dim: 64, dtype: fp32},
     seq_len: 1K, mask: causal, kernel: cpu_tiled, pass: [forward, backward]})");
  const int64_t q = int64_t{1024} * 8 * 64 * 4;
  const int64_t kv = int64_t{1024} * 2 * 64 * 4;
  EXPECT_GE(Of(trials.at(0)).peak_bytes.value(), 2 * q + 2 * kv);  // Q, out, K, V
  EXPECT_LE(Of(trials.at(0)).peak_bytes.value(), 20 * q);
  EXPECT_GE(Of(trials.at(1)).peak_bytes.value(), 4 * q + 4 * kv);  // and dOut, dQ, dK, dV
}

TEST(Estimate, TimeFollowsTheWork) {
  const auto trials = Trials(R"({shape: {q_heads: 4, head_dim: 64}, seq_len: [1K, 4K], mask: full,
     kernel: cpu_tiled})");
  Calibration calibration(1);
  const Catalogue catalogue = Catalogue::Builtin();
  const Estimate small = EstimateTrial(trials.at(0), catalogue, calibration).value();
  const Estimate large = EstimateTrial(trials.at(1), catalogue, calibration).value();
  ASSERT_TRUE(small.iteration.has_value());
  ASSERT_TRUE(large.iteration.has_value());
  EXPECT_GT(*small.iteration, absl::ZeroDuration());
  EXPECT_NEAR(absl::FDivDuration(*large.iteration, *small.iteration), 16, 1e-3);
  EXPECT_GE(*small.whole, *small.iteration * 24);  // warm-up, checks and one sample
}

TEST(Estimate, UnsupportedTrialsHaveTheirWorkOnly) {
  const auto trials = Trials(R"({shape: {q_heads: 8, head_dim: 64}, seq_len: 1K, mask: full,
     kernel: cpu_tiled, strategy: ulysses, ranks: 3})");
  ASSERT_THAT(trials.at(0).unsupported_reason(), HasSubstr("3"));
  const Estimate estimate = Of(trials.at(0));
  EXPECT_EQ(estimate.area, int64_t{1024} * 1024 * 8);
  EXPECT_FALSE(estimate.bytes_sent.has_value());
  EXPECT_FALSE(estimate.peak_bytes.has_value());
  EXPECT_FALSE(estimate.whole.has_value());
}

TEST(Estimate, KernelsThatOnlyWorkersHaveAreNotRunHere) {
  Catalogue catalogue = Catalogue::Builtin();
  v1::KernelInfo info;
  info.set_name("somebodys");
  info.set_device_kind("cuda");
  ASSERT_TRUE(catalogue.Add(info).ok());
  v1::TrialSpec trial = Trials(R"({shape: {q_heads: 8, head_dim: 64}, seq_len: 1K, mask: full,
     kernel: cpu_tiled})")
                            .at(0);
  trial.mutable_kernel()->Clear();
  trial.mutable_kernel()->set_name("somebodys");
  Calibration calibration(1);
  const absl::StatusOr<Estimate> estimate = EstimateTrial(trial, catalogue, calibration);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->flops, int64_t{4} * 1024 * 1024 * 8 * 64);
  EXPECT_FALSE(estimate->peak_bytes.has_value());
  EXPECT_FALSE(estimate->iteration.has_value());
}

}  // namespace
}  // namespace lcab::suites
