// Philox, conversions and input elements: known answers, moments, independence.

#include "attention/inputs.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "attention/input_values.h"
#include "attention/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr Tensor kInputs[] = {Tensor::kQ, Tensor::kK, Tensor::kV, Tensor::kDOut, Tensor::kDLse};
constexpr Distribution kDistributions[] = {Distribution::kNormal, Distribution::kHeavyTailed,
                                           Distribution::kLargeRows, Distribution::kCorrelated};

// The known answers that the authors of Random123 publish with it (kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
  const uint32_t ones = 0xffffffffU;
  EXPECT_THAT(Philox({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU));
  EXPECT_THAT(
      Philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

TEST(PhiloxTest, DrawsBelowABoundAreEven) {
  PhiloxStream random(5, 1);
  std::map<uint64_t, int> seen;
  for (int n = 0; n < 70000; ++n) ++seen[random.Below(7)];
  ASSERT_EQ(seen.size(), 7u);
  // 5 deviations of sqrt(70000 / 7 * 6 / 7).
  for (const auto& [value, count] : seen) EXPECT_NEAR(count, 10000, 463) << value;
  EXPECT_EQ(random.Below(1), 0u);
}

TEST(PhiloxTest, StreamsOfOneSeedDifferByPurposeAndSubstream) {
  std::set<uint64_t> first;
  for (uint32_t purpose = 0; purpose < 10; ++purpose) {
    for (uint32_t substream = 0; substream < 10; ++substream) {
      first.insert(PhiloxStream(1, purpose, substream).Next64());
    }
  }
  EXPECT_EQ(first.size(), 100u);
}

TEST(DTypeTest, RoundingIsToNearestEven) {
  // 1 + n/256: a bf16 has steps of 1/128 there.
  EXPECT_EQ(ToFloat(ToBFloat16(1 + 1 / 256.0F)), 1.0F);
  EXPECT_EQ(ToFloat(ToBFloat16(1 + 3 / 256.0F)), 1 + 4 / 256.0F);
  EXPECT_EQ(ToFloat(ToBFloat16(1 + 1.001F / 256)), 1 + 2 / 256.0F);
  EXPECT_EQ(ToFloat(ToBFloat16(-1 - 1 / 256.0F)), -1.0F);
  EXPECT_EQ(ToFloat(ToBFloat16(INFINITY)), INFINITY);
  EXPECT_EQ(ToFloat(ToBFloat16(3.4e38F)), INFINITY);
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(NAN))));
  uint32_t bits = 0x7f800001;  // a NaN whose payload is in the lower half
  float nan = 0;
  std::memcpy(&nan, &bits, sizeof(nan));
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(nan))));
  EXPECT_EQ(ParseDType(Name(DType::kBFloat16)), DType::kBFloat16);
  EXPECT_EQ(ParseDType(Name(DType::kFloat32)), DType::kFloat32);
  EXPECT_EQ(ParseDType("fp16"), std::nullopt);
}

std::vector<float> Row(const InputSource& source, Tensor tensor, int64_t token, int64_t head,
                       int64_t dim) {
  std::vector<float> row(static_cast<size_t>(dim));
  InputRow(source, tensor, token, head, dim, row.data());
  return row;
}

TEST(InputsTest, RowsAreTheirElements) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Distribution distribution : kDistributions) {
      const InputSource source{9, 2, distribution, dtype, 4};
      for (const Tensor tensor : kInputs) {
        for (const int64_t dim : {1, 2, 3, 16, 31, 32, 33, 64, 65, 127, 192}) {
          for (const int64_t token : {int64_t{0}, int64_t{63}, int64_t{64}, int64_t{1} << 33}) {
            const std::vector<float> row = Row(source, tensor, token, 3, dim);
            for (int64_t channel = 0; channel < dim; ++channel) {
              ASSERT_EQ(row[static_cast<size_t>(channel)],
                        InputElement(source, tensor, token, 3, channel));
            }
          }
        }
      }
    }
  }
}

TEST(InputsTest, EveryElementIsAValueOfTheDType) {
  for (const Distribution distribution : kDistributions) {
    const InputSource source{4, 0, distribution, DType::kBFloat16, 2};
    for (const Tensor tensor : kInputs) {
      for (int64_t token = 0; token < 200; ++token) {
        for (const float x : Row(source, tensor, token, 1, 64)) {
          ASSERT_EQ(ToFloat(ToBFloat16(x)), x);
        }
      }
    }
  }
}

TEST(InputsTest, SinglePrecisionUsesAllBitsOfTheSignificand) {
  const InputSource source{4, 0, Distribution::kNormal, DType::kFloat32, 1};
  int odd = 0, count = 0;
  for (int64_t token = 0; token < 1000; ++token) {
    for (const float x : Row(source, Tensor::kQ, token, 0, 64)) {
      uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof(bits));
      odd += static_cast<int>(bits & 1U);
      ++count;
    }
  }
  EXPECT_NEAR(odd, count / 2.0, 5 * std::sqrt(count) / 2);
}

// The sum of three uniforms, scaled: mean 0, variance 1, kurtosis 3 - 6/5/3, range (-3, 3).
TEST(InputsTest, ElementsHaveTheMomentsOfThreeUniforms) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const InputSource source{11, 0, Distribution::kNormal, dtype, 1};
    for (const Tensor tensor : kInputs) {
      double sum = 0, squares = 0, fourths = 0;
      double largest = 0;
      constexpr int64_t kTokens = 4000, kDim = 64;
      for (int64_t token = 0; token < kTokens; ++token) {
        for (const double x : Row(source, tensor, token, 2, kDim)) {
          sum += x;
          squares += x * x;
          fourths += x * x * x * x;
          largest = std::max(largest, std::abs(x));
        }
      }
      constexpr double kCount = kTokens * kDim;
      const double deviations = 5 / std::sqrt(kCount);
      EXPECT_NEAR(sum / kCount, 0, deviations);
      EXPECT_NEAR(squares / kCount, 1, deviations * std::sqrt(1.6));
      EXPECT_NEAR(fourths / kCount, 2.6, deviations * 6);
      EXPECT_LE(largest, 3);
      EXPECT_GT(largest, 2.8);
    }
  }
}

double Correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST(InputsTest, EverythingThatAnElementDependsOnMakesOthers) {
  constexpr int64_t kDim = 4096;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const InputSource source{1, 0, Distribution::kNormal, dtype, 1};
    InputSource reseeded = source, high = source, regenerated = source;
    reseeded.seed = 2;
    high.seed = source.seed | uint64_t{1} << 40;
    regenerated.generation = 1;
    const std::vector<std::vector<float>> rows = {
        Row(source, Tensor::kQ, 0, 0, kDim),
        Row(reseeded, Tensor::kQ, 0, 0, kDim),
        Row(high, Tensor::kQ, 0, 0, kDim),
        Row(regenerated, Tensor::kQ, 0, 0, kDim),
        Row(source, Tensor::kK, 0, 0, kDim),
        Row(source, Tensor::kV, 0, 0, kDim),
        Row(source, Tensor::kDOut, 0, 0, kDim),
        Row(source, Tensor::kQ, 1, 0, kDim),
        Row(source, Tensor::kQ, 0, 1, kDim),
        Row(source, Tensor::kQ, int64_t{1} << 32, 0, kDim),
        Row(source, Tensor::kQ, 0, 1 << 8, kDim),
        Row(source, Tensor::kQ, 0, 65535, kDim)};
    for (size_t a = 0; a < rows.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        EXPECT_NEAR(Correlation(rows[a], rows[b]), 0, 5 / std::sqrt(kDim)) << a << " " << b;
      }
    }
  }
}

// Ratios of a shaped distribution to the normal one, by channel and row.
TEST(InputsTest, OneChannelInSixteenIsHeavyInAllRowsOfAHead) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const InputSource normal{3, 0, Distribution::kNormal, dtype, 1};
    InputSource heavy = normal;
    heavy.distribution = Distribution::kHeavyTailed;
    std::set<float> factors;
    std::set<std::vector<float>> patterns;
    for (const Tensor tensor : {Tensor::kQ, Tensor::kK, Tensor::kV, Tensor::kDOut}) {
      for (int64_t head = 0; head < 8; ++head) {
        std::vector<float> pattern;
        for (int64_t token = 0; token < 3; ++token) {
          const std::vector<float> plain = Row(normal, tensor, token, head, 64);
          const std::vector<float> shaped = Row(heavy, tensor, token, head, 64);
          std::vector<float> ratios;
          for (size_t c = 0; c < 64; ++c) ratios.push_back(shaped[c] / plain[c]);
          if (token == 0) pattern = ratios;
          EXPECT_EQ(ratios, pattern);
        }
        for (size_t group = 0; group < 4; ++group) {
          int above = 0;
          for (size_t c = 16 * group; c < 16 * group + 16; ++c) {
            if (pattern[c] == 1) continue;
            ++above;
            factors.insert(pattern[c]);
          }
          EXPECT_EQ(above, 1);
        }
        patterns.insert(pattern);
      }
    }
    EXPECT_THAT(factors, ElementsAre(8, 16, 32));
    EXPECT_EQ(patterns.size(), 32u);
  }
}

TEST(InputsTest, OneRowInSixtyFourIsLarge) {
  const InputSource normal{3, 0, Distribution::kNormal, DType::kBFloat16, 1};
  InputSource large = normal;
  large.distribution = Distribution::kLargeRows;
  for (int64_t group = 0; group < 5; ++group) {
    int rows = 0;
    for (int64_t token = 64 * group; token < 64 * group + 64; ++token) {
      const std::vector<float> plain = Row(normal, Tensor::kQ, token, 1, 32);
      const std::vector<float> shaped = Row(large, Tensor::kQ, token, 1, 32);
      std::vector<float> ratios;
      for (size_t c = 0; c < 32; ++c) ratios.push_back(shaped[c] / plain[c]);
      EXPECT_THAT(ratios, Each(ratios[0]));
      EXPECT_TRUE(ratios[0] == 1 || ratios[0] == 16);
      rows += ratios[0] == 16 ? 1 : 0;
    }
    EXPECT_EQ(rows, 1);
  }
}

TEST(InputsTest, CorrelatedKeysAreHalfTheQueryOfTheirGroupAndNoise) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const InputSource normal{3, 0, Distribution::kNormal, dtype, 4};
    InputSource correlated = normal;
    correlated.distribution = Distribution::kCorrelated;
    for (int64_t kv_head = 0; kv_head < 3; ++kv_head) {
      const std::vector<float> q = Row(correlated, Tensor::kQ, 17, 4 * kv_head, 128);
      EXPECT_EQ(q, Row(normal, Tensor::kQ, 17, 4 * kv_head, 128));
      const std::vector<float> noise = Row(normal, Tensor::kK, 17, kv_head, 128);
      const std::vector<float> k = Row(correlated, Tensor::kK, 17, kv_head, 128);
      for (size_t c = 0; c < 128; ++c) {
        const double exact = 0.5 * q[c] + noise[c];
        // Rounded once to 8 or 24 bits.
        const double half_step = std::abs(exact) * (dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-24);
        ASSERT_NEAR(k[c], exact, half_step);
      }
    }
    EXPECT_EQ(Row(correlated, Tensor::kV, 17, 1, 64), Row(normal, Tensor::kV, 17, 1, 64));
  }
}

TEST(InputsTest, DistributionsHaveNames) {
  for (const Distribution distribution : kDistributions) {
    EXPECT_EQ(ParseDistribution(Name(distribution)), distribution);
  }
  EXPECT_EQ(ParseDistribution("uniform"), std::nullopt);
}

}  // namespace
}  // namespace lcab
