// The emulation in the working precision, held against fp64.

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/made_tensors_for_test.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t d = 0; d < a.size(); ++d) {
    difference += (a[d] - b[d]) * (a[d] - b[d]);
    norm += b[d] * b[d];
  }
  return std::sqrt(difference / norm);
}

// One rounding is off by 2^-9 in bf16 (half of its unit roundoff, which is usual) and at most 2^-24
// in fp32; what is summed rounds a few times.
TEST(WorkingPrecisionTest, ErrorIsAFewRoundings) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Problem problem =
        MakeProblem(SliceMask(300, 300, {{0, 300, 0, 300, SliceKind::kCausal}}), 4, 2, 64, 32);
    problem.dtype = dtype;
    problem.op = Softmax{std::nullopt, 20};
    const Tensors t = Tensors::Random(problem);
    const Reference exact = Prepared(problem, t);
    const Reference working = Prepared(problem, t, Precision::kWorking);
    const double unit = dtype == DType::kBFloat16 ? 0x1p-9 : 0x1p-24;
    const auto check = [&](const std::vector<double>& got, const std::vector<double>& right) {
      const double error = Distance(got, right);
      EXPECT_GT(error, 0.1 * unit);
      EXPECT_LT(error, 40 * unit);
      if (dtype == DType::kBFloat16) {
        EXPECT_LT(error, 8 * unit);
        for (const double x : got) {
          EXPECT_EQ(ToFloat(ToBFloat16(static_cast<float>(x))), static_cast<float>(x));
        }
      }
    };
    for (const int64_t token : {5, 128, 299}) {
      check(working.Out(3, token).out, exact.Out(3, token).out);
      EXPECT_NEAR(working.lse(3, token), exact.lse(3, token), 2e-6);
      check(working.DQ(3, token), exact.DQ(3, token));
    }
    for (const int64_t key : {0, 100, 290}) {
      check(working.DK(1, key), exact.DK(1, key));
      check(working.DV(1, key), exact.DV(1, key));
    }
  }
}

TEST(WorkingPrecisionTest, LongRowsLoseNoPrecision) {
  Problem problem = MakeProblem(SliceMask(1, 1 << 17, {{0, 1, 0, 1 << 17}}), 1, 1, 1, 1);
  Tensors t = Tensors::Random(problem);
  std::fill(t.v.begin(), t.v.end(), 1.0F);
  const auto out = Reference(problem, t.inputs(), Precision::kWorking).Out(0, 0);
  const auto exact = Reference(problem, t.inputs(), Precision::kExact).Out(0, 0);
  EXPECT_NEAR(out.lse, exact.lse, 4 * 0x1p-20);
  EXPECT_NEAR(out.out[0], 1, 4 * 0x1p-22);
}

}  // namespace
}  // namespace lcab
