#include "measurement/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cp/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "measurement/executor_contestant.h"
#include "measurement/one_rank_for_test.h"
#include "measurement/rendezvous_for_test.h"
#include "measurement/truth_store.h"

namespace lcab::measurement {
namespace {

// A kernel on one rank, ready to run.
class OneRank {
 public:
  OneRank(const Problem& problem, Pass pass, const std::string& kernel_name)
      : device_(MakeCpuDevice({.threads = 2}).value()),
        truths_(problem, /*seed=*/7, Distribution::kNormal, /*secret=*/11, *device_, {}) {
    executor_ = MakeOneRankExecutor(problem, pass, kernel_name, *device_);
    contestant_ = ExecutorContestant::Create({.pass = pass, .cold = false}, truths_, *executor_,
                                             *device_, findings_)
                      .value();
  }

  // Runs once on inputs 0, once on inputs 1, and checks numbers.
  v1::Verification Check() {
    for (const int inputs : {0, 1}) {
      EXPECT_TRUE(contestant_->SetInputs(inputs, Soon()).ok());
      EXPECT_TRUE(contestant_->RunIteration(1, Soon()).ok());
      EXPECT_TRUE(contestant_->Examine(inputs, inputs, Soon()).ok());
      EXPECT_TRUE(contestant_->Keep(inputs, inputs, Soon()).ok());
    }
    EXPECT_TRUE(contestant_->CheckNumbers(Soon()).ok());
    return findings_.ToProto();
  }

 private:
  std::unique_ptr<Device> device_;
  TruthStore truths_;
  std::unique_ptr<cp::Executor> executor_;
  Findings findings_{0};
  std::unique_ptr<ExecutorContestant> contestant_;
};

class GoodKernelTest : public testing::TestWithParam<std::tuple<DType, Shape>> {};

INSTANTIATE_TEST_SUITE_P(
    Shapes, GoodKernelTest,
    testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                     testing::Values(Shape{"full", {}, 300, 4, 2, 64, 64},
                                     Shape{"causal", {}, 333, 3, 1, 32, 48},
                                     Shape{.mask = "sliding_window_causal",
                                           .options = {{"window", Value{int64_t{17}}}},
                                           .tokens = 260,
                                           .q_heads = 2,
                                           .kv_heads = 2,
                                           .qk_dim = 64,
                                           .v_dim = 32,
                                           .softcap = 20},
                                     Shape{"causal_document", {}, 500, 2, 1, 16, 16})),
    [](const auto& instance) {
      return fmt::format("{}_{}", std::get<1>(instance.param).mask,
                         Name(std::get<0>(instance.param)));
    });

TEST_P(GoodKernelTest, PassesOnEveryDistributionOfInputs) {
  auto [dtype, shape] = GetParam();
  shape.dtype = dtype;
  const Problem problem = MakeProblem(shape);
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const char* kernel : {"cpu_reference", "cpu_tiled"}) {
      SCOPED_TRACE(fmt::format("{} {}", kernel, Name(pass)));
      const v1::Verification verification = OneRank(problem, pass, kernel).Check();
      EXPECT_TRUE(IsOk(verification))
          << (verification.findings().empty() ? "" : Describe(verification.findings(0)));
      EXPECT_GT(verification.max_error(), 0);
      // Not because much was allowed.
      EXPECT_LT(verification.max_error(), dtype == DType::kBFloat16 ? 0.02 : 2e-4);
    }
  }
}

TEST(NumbersTest, DocumentsOfOneTokenAndRowsWithoutKeysPass) {
  Problem problem = MakeProblem({"full", {}, 4, 2, 1, 16, 16, DType::kBFloat16});
  // 37 documents of one token, a row that sees nothing, and a block.
  std::vector<Slice> slices;
  for (int64_t i = 0; i < 37; ++i) slices.push_back({i, i + 1, i, i + 1, SliceKind::kFull});
  slices.push_back({38, 100, 38, 100, SliceKind::kCausal});
  problem.mask = std::make_shared<const Mask>(Mask::FromSlices(100, 100, slices).value());
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const v1::Verification verification = OneRank(problem, pass, "cpu_tiled").Check();
    EXPECT_TRUE(IsOk(verification))
        << (verification.findings().empty() ? "" : Describe(verification.findings(0)));
  }
}

// Truths of a small problem and rows that equal them, to be changed.
class CompareRowsTest : public testing::Test {
 protected:
  CompareRowsTest() {
    problem_ = MakeProblem({"causal", {}, 130, 2, 1, 32, 32, DType::kBFloat16});
    truths_ = std::make_unique<TruthStore>(problem_, 7, Distribution::kNormal, 11, *device_,
                                           TruthStore::Ranks{});
  }

  void Row(const TruthRow& row, const std::function<void(std::vector<float>&)>& change,
           Findings* findings) {
    std::vector<float> values(row.values.begin(), row.values.end());
    change(values);
    cp::Shard shard = {.tensor = row.tensor,
                       .tokens = TokenSet::Range(row.token, row.token + 1),
                       .heads = {row.head, row.head + 1},
                       .view = {.data = reinterpret_cast<std::byte*>(values.data()),
                                .tokens = 1,
                                .heads = 1,
                                .dim = static_cast<int64_t>(values.size()),
                                .token_stride = static_cast<int64_t>(values.size()),
                                .head_stride = static_cast<int64_t>(values.size())}};
    RowSelection selection;
    selection.rows.assign(2, {row.token});
    selection.keys.assign(1, {row.token});
    const KeptRows kept = KeptRows::Copy({&shard, 1}, selection, *device_, Soon()).value();
    EXPECT_EQ(kept.size(), 1U);
    EXPECT_EQ(CompareRows(kept, {&row, 1}, findings), 1);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
  Problem problem_;
  std::unique_ptr<TruthStore> truths_;
};

TEST_F(CompareRowsTest, ErrorsOfAFewPercentAreFoundAndRoundingIsNot) {
  for (const auto& [pass, tensor] :
       {std::pair{Pass::kForward, Tensor::kOut}, std::pair{Pass::kBackward, Tensor::kDQ},
        std::pair{Pass::kBackward, Tensor::kDK}, std::pair{Pass::kBackward, Tensor::kDV}}) {
    const std::vector<TruthRow>& truth = *truths_->Get(pass, 0, Soon()).value();
    for (const TruthRow& row : truth) {
      if (row.tensor != tensor || row.scale == 0) continue;
      double norm = 0;
      for (const double value : row.values) norm += value * value;
      norm = std::sqrt(norm);
      if (norm < row.scale / 2) continue;  // cancels: its error is not relative to it
      Findings rounded(0), scaled(0), shifted(0);
      Row(
          row,
          [](auto& values) {
            for (float& value : values) value = ToFloat(ToBFloat16(value));
          },
          &rounded);
      Row(
          row,
          [](auto& values) {
            for (float& value : values) value *= 1.05F;
          },
          &scaled);
      Row(
          row,
          [](auto& values) {
            std::swap(values[0], values[1]);
            values[2] += 1;
          },
          &shifted);
      EXPECT_TRUE(rounded.ok()) << Name(tensor) << " " << row.token;
      EXPECT_FALSE(scaled.ok()) << Name(tensor) << " " << row.token;
      EXPECT_FALSE(shifted.ok()) << Name(tensor) << " " << row.token;
    }
  }
}

TEST_F(CompareRowsTest, NanAndInfinityAreFound) {
  const std::vector<TruthRow>& truth = *truths_->Get(Pass::kForward, 0, Soon()).value();
  for (const float bad : {std::nanf(""), INFINITY}) {
    Findings findings(0);
    Row(
        truth.back(), [&](auto& values) { values.back() = bad; }, &findings);
    EXPECT_FALSE(findings.ok());
    EXPECT_GE(findings.ToProto().findings(0).error_ratio(), 1e6);
  }
}

TEST_F(CompareRowsTest, LseIsComparedAbsolutely) {
  for (const TruthRow& row : *truths_->Get(Pass::kForward, 0, Soon()).value()) {
    if (row.tensor != Tensor::kLse) continue;
    Findings near(0), far(0);
    Row(
        row, [](auto& values) { values[0] += 1e-4F; }, &near);
    Row(
        row, [](auto& values) { values[0] += 4e-4F; }, &far);
    EXPECT_TRUE(near.ok());
    EXPECT_FALSE(far.ok());
    // It counts as a share of what is allowed, not as an error relative to the row.
    EXPECT_GT(far.ToProto().max_error_ratio(), 1);
    EXPECT_EQ(far.ToProto().max_error(), 0);
  }
}

TEST(TruthStoreTest, WhatIsAllowedIsAFewRoundingsOnEveryDistribution) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Problem problem = MakeProblem({"causal", {}, 700, 2, 1, 64, 64, dtype});
    const std::unique_ptr<Device> device = MakeCpuDevice({.threads = 2}).value();
    TruthStore store(problem, 7, Distribution::kNormal, 11, *device, {});
    for (int index = 0; index < static_cast<int>(store.cases().size()); ++index) {
      for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const TruthRow& row : *store.Get(pass, index, Soon()).value()) {
          if (row.tensor == Tensor::kLse || row.scale == 0) continue;
          // Three times P's (or dS's), delta's and the output's rounding of 2^-9 each in bf16; in
          // fp32 the rounding of a sum of 64 products, of logits that reach a thousand.
          EXPECT_LT(row.allowed / row.scale, dtype == DType::kBFloat16 ? 0.0125 : 6e-4)
              << Name(row.tensor) << " " << row.token << " " << Name(row.distribution);
        }
      }
    }
  }
}

TEST(TruthStoreTest, RanksShareTheWorkAndGetTheSameTruths) {
  const Problem problem = MakeProblem({"causal", {}, 150, 6, 3, 16, 16, DType::kBFloat16});
  const std::unique_ptr<Device> alone_device = MakeCpuDevice({.threads = 1}).value();
  TruthStore alone(problem, 7, Distribution::kNormal, 11, *alone_device, {});
  FakeRendezvous rendezvous;
  std::vector<std::thread> threads;
  threads.reserve(2);
  std::mutex mutex;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Device> device = MakeCpuDevice({.threads = 1}).value();
      TruthStore store(problem, 7, Distribution::kNormal, 11, *device,
                       {.rank = rank, .ranks = 2, .prefix = "p", .rendezvous = &rendezvous});
      for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        const std::vector<TruthRow>& shared = *store.Get(pass, 1, Soon()).value();
        const std::lock_guard lock(mutex);
        const std::vector<TruthRow>& expected = *alone.Get(pass, 1, Soon()).value();
        ASSERT_EQ(shared.size(), expected.size());
        for (const TruthRow& row : expected) {
          bool found = false;
          for (const TruthRow& other : shared) {
            if (other.tensor != row.tensor || other.head != row.head || other.token != row.token) {
              continue;
            }
            found = true;
            EXPECT_EQ(other.values, row.values);
            EXPECT_EQ(other.allowed, row.allowed);
          }
          EXPECT_TRUE(found);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TruthStoreTest, ChangedInputsAreOthersThanTheFirstAndEveryDistributionIsRun) {
  const std::unique_ptr<Device> device = MakeCpuDevice({.threads = 1}).value();
  for (const auto& [kv_heads, cases] : {std::pair{1, 5}, std::pair{2, 4}, std::pair{8, 3}}) {
    const Problem problem =
        MakeProblem({"causal", {}, 50, 2 * kv_heads, kv_heads, 16, 16, DType::kBFloat16});
    TruthStore store(problem, 7, Distribution::kHeavyTailed, 11, *device, {});
    ASSERT_EQ(store.cases().size(), static_cast<size_t>(cases));
    EXPECT_EQ(store.cases()[0].sources[0].generation, 0U);
    EXPECT_NE(store.cases()[1].sources[0].generation, 0U);
    std::set<Distribution> timed, others;
    for (int index = 0; index < cases; ++index) {
      for (int64_t head = 0; head < 2 * kv_heads; ++head) {
        const InputSource& source = store.SourceOf(index, Tensor::kQ, head);
        EXPECT_EQ(source, store.SourceOf(index, Tensor::kV, head / 2));
        (index < TruthStore::kTimedCases ? timed : others).insert(source.distribution);
      }
    }
    EXPECT_THAT(timed, testing::ElementsAre(Distribution::kHeavyTailed));
    EXPECT_THAT(others,
                testing::UnorderedElementsAre(Distribution::kNormal, Distribution::kLargeRows,
                                              Distribution::kCorrelated));
  }
}

}  // namespace
}  // namespace lcab::measurement
