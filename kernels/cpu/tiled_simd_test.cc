#include "kernels/cpu/tiled_simd.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace lcab {
namespace {

// Values, and enough copies of the last to fill vectors of any length.
std::vector<float> Padded(std::vector<float> values) {
  values.resize((values.size() + 63) / 64 * 64, values.back());
  return values;
}

// Distance in units in the last place of `truth` as a float.
double Ulps(float value, double truth) {
  const auto rounded = static_cast<float>(truth);
  const double unit = static_cast<double>(std::nextafter(std::abs(rounded),
                                                         std::numeric_limits<float>::infinity())) -
                      std::abs(rounded);
  return std::abs(value - truth) / unit;
}

TEST(TiledSimdTest, PowersOfTwoAreWithinAboutOneUnitInTheLastPlace) {
  for (const TiledSimd* simd : AllTiledSimd()) {
    std::vector<float> x;
    for (int i = 0; i < 400'000; ++i) x.push_back(static_cast<float>(-126.0 + i * 3.17e-4));
    x = Padded(x);
    std::vector<float> y(x.size());
    simd->exp2(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, Ulps(y[i], std::exp2(static_cast<double>(x[i]))));
    }
    EXPECT_LE(worst, 1.25) << simd->name;
  }
}

TEST(TiledSimdTest, PowersOfTwoAreExactAtIntegersAndAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const TiledSimd* simd : AllTiledSimd()) {
    std::vector<float> x =
        Padded({0.0f, 1.0f, -1.0f, -20.0f, 100.0f, -126.0f, -127.0f, -128.0f, -1e30f, -infinity,
                std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0xFFFFFFFFU)});
    std::vector<float> y(x.size());
    simd->exp2(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(y[i], std::exp2(x[i])) << simd->name << " " << x[i];
    for (size_t i = 6; i < 10; ++i) EXPECT_EQ(y[i], 0) << simd->name << " " << x[i];
    EXPECT_TRUE(std::isnan(y[10])) << simd->name;
    EXPECT_TRUE(std::isnan(y[11])) << simd->name;
  }
}

TEST(TiledSimdTest, HyperbolicTangentsAreNearAndNeverBeyondOne) {
  for (const TiledSimd* simd : AllTiledSimd()) {
    std::vector<float> x;
    for (int i = -200'000; i <= 200'000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
    x = Padded(x);
    std::vector<float> y(x.size());
    simd->tanh(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(std::abs(y[i]), 1.0f) << simd->name << " " << x[i];
      if (x[i] != 0) {
        ASSERT_LE(Ulps(y[i], std::tanh(static_cast<double>(x[i]))), 6) << simd->name << " " << x[i];
      }
    }
  }
}

TEST(TiledSimdTest, EveryInstructionSetHasAShapeThatFitsTogether) {
  for (const TiledSimd* simd : AllTiledSimd()) {
    const TileShape& shape = simd->shape;
    EXPECT_EQ(shape.rows % simd->lanes, 0) << simd->name;
    EXPECT_EQ(shape.rows % shape.panel, 0) << simd->name;
    EXPECT_EQ(shape.keys % shape.panel, 0) << simd->name;
    EXPECT_LT(shape.keys, 1 << 15) << simd->name;
  }
}

}  // namespace
}  // namespace lcab
