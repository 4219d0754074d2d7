#include "suites/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

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
}

std::string Refusal(const std::string& path) {
  const absl::StatusOr<SuiteSource> source = LoadSuite(path);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(source.status().message());
}

TEST_F(SourceTest, WhatIsNoRegularFileIsRefusedWithoutWaitingForIt) {
  const std::string pipe = (folder_ / "pipe.yaml").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(Refusal(pipe), HasSubstr("is a named pipe; name a regular file, or give -"));
  EXPECT_THAT(Refusal("/dev/zero"), HasSubstr("is a device"));
  EXPECT_THAT(Refusal("/dev/null"), HasSubstr("is a device"));
}

TEST_F(SourceTest, AHistogramThatIsNoRegularFileIsRefusedWhereItIsNamed) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_directories(folder_ / "folder");
  Write("huge", std::string(3U << 20, ' '));
  const std::string path = Write("s.yaml",
                                 "a: {histogram: pipe}\nb: {histogram: folder}\n"
                                 "c: {histogram: /dev/zero}\nd: {histogram: huge}\n");
  const std::string refusal = Refusal(path);
  EXPECT_THAT(refusal, HasSubstr(path + ":1:16: histogram: "));
  EXPECT_THAT(refusal, HasSubstr("is a named pipe"));
  EXPECT_THAT(refusal, HasSubstr(path + ":2:16: histogram: "));
  EXPECT_THAT(refusal, HasSubstr("is a folder"));
  EXPECT_THAT(refusal, HasSubstr(path + ":3:16: histogram: '/dev/zero' is a device"));
  EXPECT_THAT(refusal, HasSubstr(path + ":4:16: histogram: "));
  EXPECT_THAT(refusal, HasSubstr("larger than 1048576 bytes"));
}

TEST_F(SourceTest, NamedFilesAreBoundedTogether) {
  std::string text = "x:\n";
  for (int n = 0; n < 17; ++n) {
    const std::string name = "h" + std::to_string(n);
    Write(name, std::string(1U << 20, ' '));
    text += "  - {histogram: " + name + "}\n";
  }
  EXPECT_THAT(Refusal(Write("s.yaml", text)), HasSubstr("more than 16777216 bytes together"));
}

// A pipe that holds `text` and has no writer any more.
class GivenPipe {
 public:
  GivenPipe(std::string_view text, bool as_standard_input) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends[1]);
    number_ = ends[0];
    if (as_standard_input) {
      previous_ = dup(STDIN_FILENO);
      dup2(number_, STDIN_FILENO);
    }
  }
  GivenPipe(const GivenPipe&) = delete;
  GivenPipe& operator=(const GivenPipe&) = delete;
  ~GivenPipe() {
    close(number_);
    if (previous_ < 0) return;
    dup2(previous_, STDIN_FILENO);
    close(previous_);
  }
  int number() const { return number_; }

 private:
  int number_ = -1;
  int previous_ = -1;
};

TEST_F(SourceTest, StandardInputAndDescriptorsOfTheShellAreRead) {
  for (const std::string path : {"-", "/dev/stdin"}) {
    const GivenPipe pipe("name: x\n", /*as_standard_input=*/true);
    const absl::StatusOr<SuiteSource> source = LoadSuite(path);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(source->text, "name: x\n");
    EXPECT_EQ(source->file_name, "/dev/stdin");
  }
  const GivenPipe pipe("name: y\n", /*as_standard_input=*/false);
  const absl::StatusOr<SuiteSource> source = LoadSuite("/dev/fd/" + std::to_string(pipe.number()));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->text, "name: y\n");
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
