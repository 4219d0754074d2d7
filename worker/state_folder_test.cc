#include "worker/state_folder.h"

#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

class StateFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fmt::format("{}/state_folder_test_{}", testing::TempDir(), getpid());
    std::filesystem::remove_all(path_);
  }
  std::string path_;
};

TEST_F(StateFolderTest, AWorkerIsTheSameAfterItsRestart) {
  {
    auto folder = StateFolder::Open(path_, "w1");
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(folder->worker_id(), "w1");
  }
  auto folder = StateFolder::Open(path_, "");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->worker_id(), "w1");
}

TEST_F(StateFolderTest, WithoutANameItIsTheHosts) {
  auto folder = StateFolder::Open(path_, "");
  ASSERT_TRUE(folder.ok());
  EXPECT_FALSE(folder->worker_id().empty());
}

TEST_F(StateFolderTest, TwoWorkersCannotShareIt) {
  auto first = StateFolder::Open(path_, "w1");
  ASSERT_TRUE(first.ok());
  const auto second = StateFolder::Open(path_, "w1");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(second.status().message().find("--name"), std::string::npos);
}

TEST_F(StateFolderTest, ItBelongsToOneName) {
  { ASSERT_TRUE(StateFolder::Open(path_, "w1").ok()); }
  const auto other = StateFolder::Open(path_, "w2");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateFolderTest, NamesThatCannotBePartOfAResourceNameAreRefused) {
  for (const char* name : {"A", "a b", "a/b", ".", "..", "\xC3\xA9"}) {
    EXPECT_EQ(StateFolder::Open(path_, name).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(StateFolder::Open(path_, std::string(64, 'a')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(StateFolderTest, AFolderThatCannotBeMadeIsAnError) {
  EXPECT_EQ(StateFolder::Open("/proc/no/such", "w1").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(Incarnation, IsNewEachTime) {
  std::set<std::string> seen;
  for (int n = 0; n < 100; ++n) seen.insert(MakeIncarnation());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen.begin()->size(), 16u);
}

}  // namespace
}  // namespace lcab::worker
