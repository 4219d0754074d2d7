#include "measurement/findings.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

v1::Finding At(int64_t token) {
  v1::Finding finding;
  finding.set_tensor("out");
  finding.set_head(3);
  finding.set_token(token);
  finding.set_message("is off");
  return finding;
}

TEST(FindingsTest, WorstOneIsKeptEvenWhenAllIsWell) {
  Findings findings(/*rank=*/2);
  for (int i = 0; i < 100; ++i) {
    findings.Check(Part::kProbe, 0.001 * ((i * 37) % 100), [&] { return At((i * 37) % 100); });
  }
  const v1::Verification verification = findings.ToProto();
  EXPECT_TRUE(IsOk(verification));
  ASSERT_EQ(verification.findings_size(), 1);
  EXPECT_EQ(verification.findings(0).token(), 99);
  EXPECT_EQ(verification.findings(0).part(), "probe");
  EXPECT_EQ(verification.findings(0).rank(), 2);
}

TEST(FindingsTest, WrongOnesOfEveryPartAreKeptWorstFirst) {
  Findings findings(0);
  for (int i = 0; i < 1000; ++i) findings.Check(Part::kProbe, 2 + i, [&] { return At(i); });
  findings.Check(Part::kNumbers, 1.5, [] { return At(7); });
  findings.Check(Part::kHonesty, 0.9, [] { return At(8); });
  const v1::Verification verification = findings.ToProto();
  EXPECT_FALSE(verification.probe_ok());
  EXPECT_FALSE(verification.numbers_ok());
  EXPECT_TRUE(verification.honesty_ok());
  ASSERT_LE(verification.findings_size(), 16);
  EXPECT_EQ(verification.findings(0).token(), 999);
  const v1::Finding& last = verification.findings(verification.findings_size() - 1);
  EXPECT_EQ(last.part(), "numbers");
  EXPECT_EQ(last.token(), 7);
}

TEST(FindingsTest, NanAndInfinityAreWrongAndFinite) {
  for (const double error : {std::nan(""), HUGE_VAL}) {
    Findings findings(0);
    findings.Check(Part::kNumbers, error, [] { return At(1); });
    findings.NoteError(error, error);
    const v1::Verification verification = findings.ToProto();
    EXPECT_FALSE(verification.numbers_ok());
    EXPECT_EQ(verification.findings(0).error_ratio(), kBeyondMeasure);
    EXPECT_EQ(verification.max_error(), kBeyondMeasure);
  }
}

TEST(FindingsTest, MergedRanksAddCountsAndKeepTheWorst) {
  Findings zero(0), one(1);
  zero.Check(Part::kProbe, 0.5, [] { return At(1); });
  zero.CountRows(10);
  zero.NoteError(0.25, 0.5);
  one.Check(Part::kHonesty, 3, [] { return At(2); });
  one.CountRows(5);
  one.CountKeys(4);
  const std::vector<v1::Verification> ranks = {zero.ToProto(), one.ToProto()};
  const v1::Verification merged = Merge(ranks);
  EXPECT_TRUE(merged.probe_ok());
  EXPECT_FALSE(merged.honesty_ok());
  EXPECT_EQ(merged.rows_checked(), 15);
  EXPECT_EQ(merged.keys_checked(), 4);
  EXPECT_EQ(merged.max_error(), 0.25);
  ASSERT_EQ(merged.findings_size(), 1);
  EXPECT_EQ(merged.findings(0).rank(), 1);
}

TEST(FindingsTest, DescriptionNamesPartTensorHeadAndRowOrKey) {
  v1::Finding finding = At(17);
  finding.set_part("probe");
  EXPECT_EQ(Describe(finding), "probe: out head 3 row 17: is off");
  finding.set_tensor("dK");
  EXPECT_EQ(Describe(finding), "probe: dK head 3 key 17: is off");
  Findings findings(0);
  findings.Fail(Part::kHonesty, "cheated");
  EXPECT_EQ(Describe(findings.Wrong(Part::kHonesty).front()), "honesty: cheated");
}

}  // namespace
}  // namespace lcab::measurement
