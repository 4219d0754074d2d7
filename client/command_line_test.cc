#include "client/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/run_for_test.h"

namespace lcab::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a verb of every kind of argument was given.
struct Given {
  std::string job;
  std::vector<std::string> rest;
  bool wait = false;
  int64_t count = 3;
  std::optional<int64_t> limit;
  double share = 0.5;
  std::string server = "here";
  std::optional<std::string> label;
  absl::Duration timeout = absl::Seconds(30);
  std::string color = "red";
};

class EchoVerb : public Verb {
 public:
  explicit EchoVerb(Given* given) : given_(given) {}
  std::string_view name() const override { return "echo"; }
  std::string_view summary() const override { return "Repeat what was given"; }
  std::string_view example() const override { return "lcab-client echo jobs/1"; }
  std::vector<Argument> Arguments() override {
    return {
        {.name = "job",
         .target = &given_->job,
         .description = "the job",
         .form = Form::kPositional,
         .required = true,
         .value = "JOB"},
        {.name = "rest", .target = &given_->rest, .description = "more", .form = Form::kPositional},
        {.name = "wait", .target = &given_->wait, .description = "wait"},
        {.name = "count", .target = &given_->count, .description = "how many"},
        {.name = "limit", .target = &given_->limit, .description = "how many at most"},
        {.name = "share", .target = &given_->share, .description = "what share"},
        {.name = "server",
         .target = &given_->server,
         .description = "where",
         .environment = "LCAB_TEST_SERVER",
         .config = "server"},
        {.name = "label", .target = &given_->label, .description = "a label"},
        {.name = "timeout", .target = &given_->timeout, .description = "how long"},
        {.name = "color",
         .target = &given_->color,
         .description = "which",
         .choices = {"red", "green"}},
    };
  }
  ExitCode Run(Console& console) override {
    console.out << "ran";
    return ExitCode::kTrials;
  }

 private:
  Given* given_;
};

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest()
      : config_(std::filesystem::path(::testing::TempDir()) /
                (std::string("config_") +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    WriteConfig("");
    ::setenv("LCAB_CONFIG", config_.c_str(), 1);
    ::unsetenv("LCAB_TEST_SERVER");
  }
  ~CommandLineTest() override {
    ::unsetenv("LCAB_CONFIG");
    ::unsetenv("LCAB_TEST_SERVER");
    std::filesystem::remove(config_);
  }

  RunResult Echo(std::initializer_list<std::string> words) {
    std::vector<std::unique_ptr<Verb>> verbs;
    verbs.push_back(std::make_unique<EchoVerb>(&given_));
    return RunForTest(verbs, words);
  }
  void WriteConfig(std::string_view text) { std::ofstream(config_) << text; }

  std::filesystem::path config_;
  Given given_;
};

TEST_F(CommandLineTest, DefaultsStayWhereNothingIsGiven) {
  const RunResult result = Echo({"echo", "jobs/1"});
  EXPECT_EQ(result.code, ExitCode::kTrials);  // the verb's own
  EXPECT_EQ(result.out, "ran");
  EXPECT_EQ(given_.job, "jobs/1");
  EXPECT_TRUE(given_.rest.empty());
  EXPECT_FALSE(given_.wait);
  EXPECT_EQ(given_.count, 3);
  EXPECT_FALSE(given_.limit.has_value());
  EXPECT_EQ(given_.server, "here");
  EXPECT_FALSE(given_.label.has_value());
  EXPECT_EQ(given_.timeout, absl::Seconds(30));
}

TEST_F(CommandLineTest, EveryKindOfArgumentArrives) {
  Echo({"echo", "jobs/1", "a", "b", "--wait", "--count", "-7", "--limit=9", "--share", "0.25",
        "--server", "there", "--label", "", "--timeout", "1m30s", "--color", "green"});
  EXPECT_THAT(given_.rest, ElementsAre("a", "b"));
  EXPECT_TRUE(given_.wait);
  EXPECT_EQ(given_.count, -7);
  EXPECT_EQ(given_.limit, 9);
  EXPECT_EQ(given_.share, 0.25);
  EXPECT_EQ(given_.server, "there");
  EXPECT_EQ(given_.label, "");
  EXPECT_EQ(given_.timeout, absl::Seconds(90));
  EXPECT_EQ(given_.color, "green");
}

TEST_F(CommandLineTest, TheCommandLineComesBeforeTheEnvironmentAndThatBeforeTheConfiguration) {
  WriteConfig("server: from_config\n");
  Echo({"echo", "j"});
  EXPECT_EQ(given_.server, "from_config");
  ::setenv("LCAB_TEST_SERVER", "from_environment", 1);
  Echo({"echo", "j"});
  EXPECT_EQ(given_.server, "from_environment");
  Echo({"echo", "j", "--server", "from_line"});
  EXPECT_EQ(given_.server, "from_line");
}

TEST_F(CommandLineTest, AConfigurationThatIsWrongIsRefusedAtItsPlace) {
  for (const std::string_view text : {"serve: x\n", "server: [a]\n", "- server\n",
                                      "server: a\nserver: b\n", "server: 'x\ny: {"}) {
    WriteConfig(text);
    const RunResult result = Echo({"echo", "j"});
    EXPECT_EQ(result.code, ExitCode::kUsage) << text;
    EXPECT_THAT(result.err, HasSubstr(config_.string() + ":")) << text;
    EXPECT_EQ(result.out, "");
  }
  WriteConfig("");
  EXPECT_EQ(Echo({"echo", "j"}).code, ExitCode::kTrials);
  std::filesystem::remove(config_);
  EXPECT_THAT(Echo({"echo", "j"}).err, HasSubstr("which LCAB_CONFIG names"));
}

TEST_F(CommandLineTest, IntegersTakeTheUnitsThatTablesPrint) {
  Echo({"echo", "j", "--count", "4K", "--limit", "2G"});
  EXPECT_EQ(given_.count, 4096);
  EXPECT_EQ(given_.limit, int64_t{2} << 30);
}

TEST_F(CommandLineTest, WhatIsWrongWithTheWordsIsSaidAndNothingRuns) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"echo"}, "job"},
      {{"echo", "j", "--count", "many"}, "--count: 'many' is not a whole number"},
      {{"echo", "j", "--limit", "0x"}, "--limit: '0x' is not a whole number"},
      {{"echo", "j", "--color", "blue"}, "--color: unknown choice 'blue'; known: red, green"},
      {{"echo", "j", "--color", "gren"}, "unknown choice 'gren'; did you mean 'green'?"},
      {{"echo", "j", "--timeout", "5"}, "'5' is not a duration; write 500ms, 30s or 5m"},
      {{"echo", "j", "--sever", "x"}, "Did you mean '--server'?"},
      {{"--color"}, "a verb comes first, before options such as '--color'"},
      {{"ehco"}, "unknown verb 'ehco'; did you mean 'echo'?"},
      {{""}, "unknown verb ''"},
      {{}, "a verb is missing"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::unique_ptr<Verb>> verbs;
    verbs.push_back(std::make_unique<EchoVerb>(&given_));
    std::ostringstream out;
    std::ostringstream err;
    Console console{out, err, {}, {}};
    std::vector<std::string> all = {"lcab-client"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(RunCommandLine(all, verbs, console), ExitCode::kUsage) << message;
    EXPECT_THAT(err.str(), AllOf(HasSubstr("error: "), HasSubstr(message)));
    EXPECT_EQ(out.str(), "");
  }
}

TEST_F(CommandLineTest, HelpTellsEveryArgumentAndAnExample) {
  const RunResult help = Echo({"echo", "--help"});
  EXPECT_EQ(help.code, ExitCode::kOk);
  EXPECT_THAT(help.out, HasSubstr("Usage: lcab-client echo JOB [VALUE...] [OPTIONS]"));
  for (const char* text : {"--wait ", "--count VALUE", "[default: 3]", "--color red|green",
                           "[environment: LCAB_TEST_SERVER]", "[configuration: server]",
                           "[default: 30s]", "Example:\n  lcab-client echo jobs/1"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  const RunResult all = Echo({"--help"});
  EXPECT_EQ(all.code, ExitCode::kOk);
  EXPECT_THAT(all.out, AllOf(HasSubstr("echo  Repeat what was given"), HasSubstr("Exit codes:")));
}

TEST_F(CommandLineTest, ErrorsAreRedOnlyOnATerminal) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, {}, {.interactive = true, .color = true}};
  Fail(console, ExitCode::kUsage, "no");
  EXPECT_EQ(err.str(), "\033[1;31merror:\033[0m no\n");
  EXPECT_EQ(Echo({"ehco"}).err.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace lcab::client
