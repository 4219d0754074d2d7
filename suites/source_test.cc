#include "suites/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "suites/catalogue.h"
#include "suites/expand.h"
#include "suites/parse.h"

namespace lcab::suites {
namespace {

using ::testing::HasSubstr;

class SourceTest : public ::testing::Test {
 protected:
  SourceTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~SourceTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  std::filesystem::path folder_;
};

TEST_F(SourceTest, AFileIsReadWithTheFilesThatItNames) {
  Write("data/lengths.json", "{}");
  const std::string path =
      Write("s.yaml", "x: [{histogram: data/lengths.json}, {histogram: data/none.json}]\n");
  const absl::StatusOr<SuiteSource> source = LoadSuite(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->file_name, path);
  EXPECT_THAT(source->files, ::testing::ElementsAre(::testing::Pair("data/lengths.json", "{}")));
}

TEST_F(SourceTest, FoldersAndHugeFilesAreRefused) {
  EXPECT_THAT(std::string(LoadSuite(folder_.string()).status().message()), HasSubstr("folder"));
  const std::string huge = Write("huge.yaml", std::string(3U << 20, '#'));
  EXPECT_THAT(std::string(LoadSuite(huge).status().message()), HasSubstr("larger than"));
  // A device without an end.
  EXPECT_FALSE(LoadSuite("/dev/zero").ok());
}

TEST_F(SourceTest, AnUnknownNameIsAnsweredWithThoseThatShip) {
  const absl::StatusOr<SuiteSource> source = LoadSuite("quik");
  EXPECT_EQ(source.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("did you mean 'quick'?"));
  EXPECT_FALSE(LoadSuite("").ok());
}

TEST_F(SourceTest, AShippedSuiteIsTheFileThatShips) {
  for (const ShippedSuite& shipped : ShippedSuites()) {
    std::ifstream file("suites/" + std::string(shipped.name) + ".yaml");
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), shipped.text) << shipped.name;
    const absl::StatusOr<SuiteSource> source = LoadSuite(shipped.name);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(source->text, shipped.text);
  }
}

TEST_F(SourceTest, EveryShippedSuiteIsReadAndAllOfItCanRun) {
  const Catalogue catalogue = Catalogue::Builtin();
  for (const ShippedSuite& shipped : ShippedSuites()) {
    const absl::StatusOr<Suite> suite = ParseSuite(LoadSuite(shipped.name).value(), catalogue);
    ASSERT_TRUE(suite.ok()) << suite.status();
    EXPECT_EQ(suite->name, shipped.name);
    EXPECT_NE(suite->description, "");
    const absl::StatusOr<Expansion> expansion = Expand(*suite, catalogue);
    ASSERT_TRUE(expansion.ok()) << expansion.status();
    for (const v1::CohortSpec& cohort : expansion->cohorts) {
      for (const v1::TrialSpec& trial : cohort.trials()) {
        EXPECT_EQ(trial.unsupported_reason(), "") << trial.key();
      }
    }
  }
}

}  // namespace
}  // namespace lcab::suites
