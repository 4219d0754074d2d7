// Custom slices.

#include <string>
#include <utility>
#include <vector>

#include "attention/made_masks_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::HasSubstr;

TEST(SliceMasksTest, SlicesAreTakenAsGiven) {
  const auto slice = [](const std::vector<int64_t>& at, std::string kind) {
    Value value = Integers(at);
    std::get<Value::List>(value.data).push_back(Word(std::move(kind)));
    return value;
  };
  const auto with = [](std::vector<Value> slices) {
    return Options{{"slices", Value{Value::List(slices.begin(), slices.end())}}};
  };
  // Case N1.
  const auto mask =
      MakeMask("slices", with({slice({0, 160, 0, 96}, "causal")}), {160, 96, 1, 0, 0});
  ASSERT_TRUE(mask.ok()) << mask.status();
  EXPECT_EQ(mask->Area(0), 4656);
  EXPECT_EQ(Made("slices",
                 with({slice({0, 4, 0, 8}, "bi_causal"), slice({4, 8, 0, 4}, "inv_causal"),
                       slice({4, 8, 4, 8}, "full")}),
                 8)
                .Area(0),
            4 * 5 + 10 + 16);
  EXPECT_THAT(
      Refusal("slices", with({slice({0, 4, 0, 8}, "casual")}), 8, 8),
      HasSubstr("'slices' holds [0,4,0,8,casual]; each entry must be [q0, q1, k0, k1, kind]"));
  EXPECT_THAT(Refusal("slices", with({slice({0, 9, 0, 8}, "full")}), 8, 8),
              HasSubstr("[0,9,0,8,full] reaches beyond the 8 queries and 8 keys"));
  EXPECT_THAT(
      Refusal("slices", with({slice({0, 4, 0, 8}, "full"), slice({3, 5, 7, 8}, "full")}), 8, 8),
      HasSubstr("overlap in row 3"));
  EXPECT_THAT(Refusal("slices", with({slice({4, 0, 0, 8}, "full")}), 8, 8),
              HasSubstr("ends before it begins"));
  EXPECT_THAT(Refusal("slices", with({Whole(3)}), 8, 8), HasSubstr("'slices' holds 3"));
  EXPECT_THAT(Refusal("slices", {}, 8, 8), HasSubstr("needs its parameter 'slices'"));
}

}  // namespace
}  // namespace lcab
