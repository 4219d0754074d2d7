#include "suites/enum_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lcab/v1/jobs.pb.h"
#include "lcab/v1/problem.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::suites {
namespace {

using ::testing::ElementsAre;

TEST(EnumNames, OutcomesAreTheEightThatAreNeverMerged) {
  EXPECT_THAT(Names<v1::Outcome>(),
              ElementsAre("ok", "wrong_result", "unsupported", "out_of_memory", "timed_out",
                          "crashed", "cancelled", "lost"));
}

TEST(EnumNames, DropThePrefixOfTypesOfOneAndOfTwoWords) {
  EXPECT_EQ(Name(v1::DTYPE_BF16), "bf16");
  EXPECT_EQ(Name(v1::PASS_BACKWARD), "backward");
  EXPECT_EQ(Name(v1::STOP_REASON_MAX_SAMPLES), "max_samples");
  EXPECT_EQ(Name(v1::MEASURE_MODE_VERIFY), "verify");
  EXPECT_EQ(Name(v1::JOB_STATE_SUCCEEDED), "succeeded");
  EXPECT_EQ(Name(v1::FAULT_INFRASTRUCTURE), "infrastructure");
}

TEST(EnumNames, ReadBackAsTheValueThatTheyName) {
  for (const std::string& name : Names<v1::StopReason>()) {
    const auto value = ParseName<v1::StopReason>(name);
    ASSERT_TRUE(value.has_value()) << name;
    EXPECT_EQ(Name(*value), name);
  }
}

TEST(EnumNames, UnspecifiedAndUnknownValuesHaveNoName) {
  EXPECT_EQ(Name(v1::OUTCOME_UNSPECIFIED), "");
  EXPECT_EQ(Name(static_cast<v1::Outcome>(99)), "");
}

TEST(EnumNames, NoOtherTextIsAName) {
  EXPECT_FALSE(ParseName<v1::Outcome>("").has_value());
  EXPECT_FALSE(ParseName<v1::Outcome>("OK").has_value());
  EXPECT_FALSE(ParseName<v1::Outcome>("unspecified").has_value());
}

}  // namespace
}  // namespace lcab::suites
