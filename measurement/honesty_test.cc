#include "measurement/honesty.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "attention/inputs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "measurement/shards.h"

namespace lcab::measurement {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 300, kHeads = 2, kDim = 16;

// An output of random values in memory of its own.
class HonestyTest : public testing::Test {
 protected:
  HonestyTest() : values_(static_cast<size_t>(kRows * kHeads * kDim)) {
    shard_ = {.tensor = Tensor::kOut,
              .tokens = TokenSet::Range(1000, 1000 + kRows),
              .heads = {4, 4 + kHeads},
              .view = {.data = reinterpret_cast<std::byte*>(values_.data()),
                       .dtype = DType::kFloat32,
                       .tokens = kRows,
                       .heads = kHeads,
                       .dim = kDim,
                       .token_stride = kHeads * kDim,
                       .head_stride = kDim}};
    Compute(/*generation=*/0);
  }

  void Compute(uint32_t generation) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t head = 0; head < kHeads; ++head) {
        InputRow({.seed = 5, .generation = generation}, Tensor::kV, row, head, kDim, At(row, head));
      }
    }
  }
  float* At(int64_t row, int64_t head) {
    return &values_[static_cast<size_t>((row * kHeads + head) * kDim)];
  }
  Fingerprint Print() {
    return TakeFingerprint({&shard_, 1}, /*seed=*/1, *device_, absl::Now() + absl::Seconds(20))
        .value();
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
  std::vector<float> values_;
  cp::Shard shard_;
  Findings findings_{0};
};

TEST_F(HonestyTest, EqualOutputsHaveEqualFingerprints) {
  FingerprintJudge judge(DType::kFloat32, /*deterministic=*/true);
  judge.Judge(Print(), 0, 0, &findings_);
  judge.Judge(Print(), 1, 0, &findings_);
  EXPECT_TRUE(findings_.ok());
}

TEST_F(HonestyTest, OneRowThatDiffersIsSeenAndItsStratumNamed) {
  FingerprintJudge judge(DType::kBFloat16, /*deterministic=*/false);
  judge.Judge(Print(), 0, 0, &findings_);
  for (int64_t c = 0; c < kDim; ++c) At(200, 1)[c] *= -1;
  judge.Judge(Print(), 7, 0, &findings_);
  ASSERT_FALSE(findings_.ok(Part::kHonesty));
  const v1::Finding finding = findings_.Wrong(Part::kHonesty).front();
  EXPECT_EQ(finding.head(), 5);
  EXPECT_EQ(finding.token(), 1000 + 192);
  EXPECT_THAT(finding.message(), HasSubstr("iterations 0 and 7 had the same inputs"));
}

TEST_F(HonestyTest, RoundingIsForgivenUnlessTheKernelPromisedEqualBits) {
  FingerprintJudge tolerant(DType::kFloat32, false), strict(DType::kFloat32, true);
  tolerant.Judge(Print(), 0, 0, &findings_);
  Findings strict_findings(0);
  strict.Judge(Print(), 0, 0, &strict_findings);
  for (float& value : values_) value = std::nextafter(value, 10.0F);
  tolerant.Judge(Print(), 1, 0, &findings_);
  strict.Judge(Print(), 1, 0, &strict_findings);
  EXPECT_TRUE(findings_.ok());
  ASSERT_FALSE(strict_findings.ok());
  EXPECT_THAT(strict_findings.Wrong(Part::kHonesty).front().message(),
              HasSubstr("says that it is deterministic"));
}

TEST_F(HonestyTest, SwappedRowsOfEqualValuesElsewhereAreSeen) {
  FingerprintJudge judge(DType::kFloat32, false);
  judge.Judge(Print(), 0, 0, &findings_);
  std::swap_ranges(At(10, 0), At(10, 0) + kDim, At(11, 0));
  judge.Judge(Print(), 1, 0, &findings_);
  EXPECT_FALSE(findings_.ok());
}

TEST_F(HonestyTest, WhatWasNotWrittenIsFoundWithItsPlace) {
  FingerprintJudge judge(DType::kFloat32, false);
  ASSERT_TRUE(Poison({&shard_, 1}, *device_).ok());
  Compute(0);
  const float poison = ToFloat(BFloat16{0xFFFF});
  for (int64_t c = 0; c < kDim; ++c) At(299, 1)[c] = poison;
  judge.Judge(Print(), 3, 0, &findings_);
  const v1::Finding finding = findings_.Wrong(Part::kHonesty).front();
  EXPECT_EQ(finding.head(), 5);
  EXPECT_EQ(finding.token(), 1299);
  EXPECT_THAT(finding.message(), HasSubstr("iteration 3 left 16 elements as they were"));
}

TEST_F(HonestyTest, ComputedNanIsToldFromPoison) {
  FingerprintJudge judge(DType::kFloat32, false);
  At(5, 0)[3] = std::nanf("");
  judge.Judge(Print(), 0, 0, &findings_);
  EXPECT_THAT(findings_.Wrong(Part::kHonesty).front().message(), HasSubstr("computed 1 elements"));
}

TEST_F(HonestyTest, InfinityIsAValue) {
  // The LSE of a row without keys.
  FingerprintJudge judge(DType::kFloat32, true);
  At(5, 0)[3] = -INFINITY;
  judge.Judge(Print(), 0, 0, &findings_);
  judge.Judge(Print(), 1, 0, &findings_);
  EXPECT_TRUE(findings_.ok());
  At(5, 0)[3] = 1;
  judge.Judge(Print(), 2, 0, &findings_);
  EXPECT_FALSE(findings_.ok());
}

TEST_F(HonestyTest, EarlierOutputGivenAgainIsFoundWhenInputsChange) {
  FingerprintJudge judge(DType::kFloat32, false);
  judge.Judge(Print(), 0, 0, &findings_);
  judge.Judge(Print(), 5, 1, &findings_);  // inputs changed, output did not
  ASSERT_FALSE(findings_.ok());
  EXPECT_THAT(findings_.Wrong(Part::kHonesty).front().message(),
              HasSubstr("inputs changed before iteration 5, and its output is still that of "
                        "iteration 0"));
}

TEST_F(HonestyTest, ChangedInputsWithChangedOutputsAreWell) {
  FingerprintJudge judge(DType::kFloat32, true);
  judge.Judge(Print(), 0, 0, &findings_);
  Compute(1);
  judge.Judge(Print(), 1, 1, &findings_);
  Compute(0);
  judge.Judge(Print(), 2, 0, &findings_);
  EXPECT_TRUE(findings_.ok());
}

TEST_F(HonestyTest, OutputsThatAreZeroWhateverTheInputsAreWell) {
  // No row sees a key.
  std::fill(values_.begin(), values_.end(), 0.0F);
  FingerprintJudge judge(DType::kFloat32, true);
  judge.Judge(Print(), 0, 0, &findings_);
  judge.Judge(Print(), 1, 1, &findings_);
  EXPECT_TRUE(findings_.ok());
}

TEST_F(HonestyTest, ChangedInputIsNamed) {
  const Fingerprint before = Print();
  CheckUnchanged(before, Print(), "inputs", &findings_);
  EXPECT_TRUE(findings_.ok());
  At(70, 0)[0] *= -1;
  CheckUnchanged(before, Print(), "inputs", &findings_);
  const v1::Finding finding = findings_.Wrong(Part::kHonesty).front();
  EXPECT_THAT(finding.message(), HasSubstr("the kernel changed its inputs"));
  EXPECT_EQ(finding.token(), 1064);
}

TEST(CheckRateTest, AboveTheArithmeticPeakIsWrong) {
  Findings at_peak(0), above(0), unknown(0);
  CheckRate(1'000'000, 1e-3, 1e9, &at_peak);
  CheckRate(1'000'001, 1e-3, 1e9, &above);
  CheckRate(1'000'001, 1e-3, 0, &unknown);
  EXPECT_TRUE(at_peak.ok());
  EXPECT_FALSE(above.ok(Part::kHonesty));
  EXPECT_TRUE(unknown.ok());
}

}  // namespace
}  // namespace lcab::measurement
