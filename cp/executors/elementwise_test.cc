#include "cp/executors/elementwise.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/philox.h"
#include "cp/builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

using ::testing::ElementsAre;

constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

// A slab of two or more buffers, and a device with two threads.
class ElementwiseTest : public testing::Test {
 protected:
  int Add(int64_t rows, int64_t heads, int64_t dim, DType dtype = DType::kFloat32,
          bool head_major = false) {
    const int64_t offset = static_cast<int64_t>(slab_.size());
    plan_.buffers.push_back({.name = "b",
                             .rows = rows,
                             .heads = heads,
                             .dim = dim,
                             .dtype = dtype,
                             .head_major = head_major,
                             .offset = offset});
    slab_.resize(slab_.size() + static_cast<size_t>(plan_.buffers.back().bytes()));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }
  void Set(int buffer, const std::vector<float>& values) {
    const Buffer& b = plan_.buffers[static_cast<size_t>(buffer)];
    for (size_t i = 0; i < values.size(); ++i) {
      std::byte* at = slab_.data() + b.offset + static_cast<int64_t>(i) * SizeOf(b.dtype);
      if (b.dtype == DType::kFloat32) {
        *reinterpret_cast<float*>(at) = values[i];
      } else {
        *reinterpret_cast<BFloat16*>(at) = ToBFloat16(values[i]);
      }
    }
  }
  std::vector<float> Get(int buffer) const {
    const Buffer& b = plan_.buffers[static_cast<size_t>(buffer)];
    std::vector<float> values;
    for (int64_t i = 0; i < b.rows * b.heads * b.dim; ++i) {
      const std::byte* at = slab_.data() + b.offset + i * SizeOf(b.dtype);
      values.push_back(b.dtype == DType::kFloat32
                           ? *reinterpret_cast<const float*>(at)
                           : ToFloat(*reinterpret_cast<const BFloat16*>(at)));
    }
    return values;
  }
  Operand At(const View& view) { return OperandOf(plan_, view, slab_.data()); }
  Workers& workers() { return *device_->workers(); }

  RankPlan plan_;
  std::vector<std::byte> slab_;
  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
};

struct Partial {
  float out, lse;
};

class MergeTest : public ElementwiseTest {
 protected:
  // Merges two results of one row, one head and one channel.
  Partial Merge(Partial own, Partial part) {
    plan_.buffers.clear();
    slab_.clear();
    const int out = Add(1, 1, 1), other = Add(1, 1, 1);
    const int lse = Add(1, 1, 1, DType::kFloat32, true),
              other_lse = Add(1, 1, 1, DType::kFloat32, true);
    Set(out, {own.out});
    Set(lse, {own.lse});
    Set(other, {part.out});
    Set(other_lse, {part.lse});
    const View views[] = {All(plan_, out), All(plan_, lse), All(plan_, other),
                          All(plan_, other_lse)};
    MergePart(At(views[0]), At(views[1]), At(views[2]), At(views[3]), workers());
    return {Get(out)[0], Get(lse)[0]};
  }
};

// Case N3.
TEST_F(MergeTest, FarApartLsesLeaveTheLargerPartAsItIs) {
  const float a = 0.123F, b = -7.25F;
  for (const Partial& merged : {Merge({a, -100}, {b, 200}), Merge({b, 200}, {a, -100})}) {
    EXPECT_EQ(merged.out, b);
    EXPECT_EQ(merged.lse, 200);
  }
}

// Case N3.
TEST_F(MergeTest, NothingMergedWithAPartIsThePartBitForBit) {
  const float b = 0.1F;
  for (const Partial& merged : {Merge({0, kNoKeys}, {b, 3.5F}), Merge({b, 3.5F}, {0, kNoKeys})}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(merged.out), std::bit_cast<uint32_t>(b));
    EXPECT_EQ(merged.lse, 3.5F);
  }
}

// Case N3.
TEST_F(MergeTest, NothingMergedWithNothingIsNothing) {
  const Partial merged = Merge({0, kNoKeys}, {0, kNoKeys});
  EXPECT_EQ(merged.out, 0);
  EXPECT_EQ(merged.lse, kNoKeys);
}

TEST_F(MergeTest, NothingWinsOverRubbishInTheOtherPart) {
  // A part without keys is not read: its out may be anything.
  const Partial merged = Merge({2, 1}, {std::numeric_limits<float>::quiet_NaN(), kNoKeys});
  EXPECT_EQ(merged.out, 2);
  EXPECT_EQ(merged.lse, 1);
}

TEST_F(MergeTest, PartsWeighByTheirSumsOfExponentials) {
  // ln 1 and ln 3: a quarter and three quarters, of a sum of 4.
  const Partial merged = Merge({8, 0}, {4, std::log(3.F)});
  EXPECT_NEAR(merged.out, 5, 1e-6);
  EXPECT_NEAR(merged.lse, std::log(4.), 1e-6);
}

TEST_F(MergeTest, ANaNIsNotHidden) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Merge({1, nan}, {1, 0}).out));
  EXPECT_TRUE(std::isnan(Merge({1, 0}, {1, nan}).lse));
}

TEST_F(ElementwiseTest, MergeOfManyRowsMatchesTheFormulaInFp64) {
  constexpr int64_t kRows = 301, kHeads = 3, kDim = 70;  // several parts for the threads
  const int out = Add(kRows, kHeads, kDim), part = Add(kRows, kHeads, kDim);
  const int lse = Add(kRows, kHeads, 1, DType::kFloat32, true);
  const int part_lse = Add(kRows, kHeads, 1, DType::kFloat32, true);
  PhiloxStream random(1, 2);
  const auto values = [&](int64_t count, float scale) {
    std::vector<float> list;
    for (int64_t i = 0; i < count; ++i) {
      list.push_back(scale * (static_cast<float>(random.Below(2001)) / 1000 - 1));
    }
    return list;
  };
  const auto o1 = values(kRows * kHeads * kDim, 3), o2 = values(kRows * kHeads * kDim, 3);
  const auto l1 = values(kRows * kHeads, 30), l2 = values(kRows * kHeads, 30);
  Set(out, o1);
  Set(part, o2);
  Set(lse, l1);
  Set(part_lse, l2);
  const View views[] = {All(plan_, out), All(plan_, lse), All(plan_, part), All(plan_, part_lse)};
  MergePart(At(views[0]), At(views[1]), At(views[2]), At(views[3]), workers());
  const std::vector<float> merged = Get(out), merged_lse = Get(lse);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const auto stat = static_cast<size_t>(head * kRows + row);
      const double w1 = std::exp(static_cast<double>(l1[stat])),
                   w2 = std::exp(static_cast<double>(l2[stat]));
      ASSERT_NEAR(merged_lse[stat], std::log(w1 + w2), 1e-5);
      for (int64_t d = 0; d < kDim; ++d) {
        const auto i = static_cast<size_t>((row * kHeads + head) * kDim + d);
        const double right =
            (w1 * static_cast<double>(o1[i]) + w2 * static_cast<double>(o2[i])) / (w1 + w2);
        ASSERT_NEAR(merged[i], right, 2e-6);
      }
    }
  }
}

TEST_F(ElementwiseTest, CopyGathersAndScattersRunsOfRowsAndHeads) {
  const int from = Add(4, 3, 1), to = Add(3, 2, 1);
  Set(from, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32});
  Set(to, {-1, -1, -1, -1, -1, -1});
  // Rows 3 and 0, heads 2 and 0, in this order, to rows 1 and 2.
  const View source{.buffer = from, .rows = {{3, 4}, {0, 1}}, .heads = {{2, 3}, {0, 1}}};
  const View target = Part(to, {1, 3}, {0, 2});
  CopyTo(At(target), At(source), workers());
  EXPECT_THAT(Get(to), ElementsAre(-1, -1, 32, 30, 2, 0));
}

TEST_F(ElementwiseTest, CopyRoundsToNearestEven) {
  const int from = Add(1, 1, 3), to = Add(1, 1, 3, DType::kBFloat16);
  // bf16 has 8 bits: 1 + 2^-8 is a tie to 1, 1 + 3 * 2^-8 one to 1 + 2^-6.
  Set(from, {1.00390625F, 1.01171875F, -2.5F});
  const View source = All(plan_, from), target = All(plan_, to);
  CopyTo(At(target), At(source), workers());
  EXPECT_THAT(Get(to), ElementsAre(1, 1.015625F, -2.5F));
}

TEST_F(ElementwiseTest, AddAndFillTouchOnlyTheirViews) {
  const int a = Add(2, 2, 1), b = Add(1, 2, 1);
  Set(a, {1, 2, 3, 4});
  Set(b, {10, 20});
  const View row = RowsPart(plan_, a, {1, 2}), whole = All(plan_, b);
  AddTo(At(row), At(whole), workers());
  EXPECT_THAT(Get(a), ElementsAre(1, 2, 13, 24));
  const View head = Part(a, {0, 2}, {1, 2});
  FillWith(At(head), kNoKeys, workers());
  EXPECT_THAT(Get(a), ElementsAre(1, kNoKeys, 13, kNoKeys));
}

TEST_F(ElementwiseTest, DeltaSumsOverChannelsInBf16AndByHeads) {
  const int out = Add(2, 2, 2, DType::kBFloat16), dout = Add(2, 2, 2, DType::kBFloat16);
  const int delta = Add(2, 2, 1, DType::kFloat32, true);
  Set(out, {1, 2, 3, 4, 5, 6, 7, 8});
  Set(dout, {1, 1, 2, 0, 0.5F, -1, 1, 1});
  const View views[] = {All(plan_, out), All(plan_, dout), All(plan_, delta)};
  ComputeDelta(At(views[0]), At(views[1]), At(views[2]), workers());
  // [heads, rows]: head 0 of rows 0 and 1, then head 1.
  EXPECT_THAT(Get(delta), ElementsAre(3, -3.5F, 6, 15));
}

TEST_F(ElementwiseTest, EmptyViewsAreLegal) {
  const int a = Add(0, 2, 4), b = Add(3, 2, 4);
  Set(b, std::vector<float>(24, 1));
  const View empty = All(plan_, a), none{.buffer = b};
  FillWith(At(empty), 0, workers());
  FillWith(At(none), 0, workers());
  CopyTo(At(empty), At(none), workers());
  AddTo(At(none), At(empty), workers());
  EXPECT_THAT(Get(b), testing::Each(1));
}

}  // namespace
}  // namespace lcab::cp
