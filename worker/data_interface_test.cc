#include "worker/data_interface.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DataInterface, TakesWhatThisHostHas) {
  for (const char* name : {"", "lo", "127.0.0.1", "localhost"}) {
    EXPECT_TRUE(CheckDataInterface(name).ok()) << name;
  }
}

// 192.0.2.0/24 is for documentation (RFC 5737): no host has it.
TEST(DataInterface, RefusesWhatItDoesNotHaveAndNamesWhatThereIs) {
  for (const char* name : {"nosuch0", "192.0.2.1"}) {
    const absl::Status status = CheckDataInterface(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(name), HasSubstr("--data-interface"), HasSubstr("lo")));
  }
}

}  // namespace
}  // namespace lcab::worker
