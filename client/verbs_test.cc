// The verbs that need no coordinator, from the words of a command line to what they print.

#include "client/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "attention/masks.h"
#include "client/exit_codes.h"
#include "client/job_exit_code.h"
#include "client/run_for_test.h"
#include "suites/catalogue.h"
#include "suites/source.h"

namespace lcab::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Explains a suite with one matrix.
RunResult Explain(const std::string& matrix, const std::string& output = "table") {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) /
      (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".yaml");
  std::ofstream(path) << "name: t\nmatrices:\n  - " << matrix << "\n";
  const RunResult result = RunForTest({"explain", path.string(), "--output", output});
  std::filesystem::remove(path);
  return result;
}

TEST(ExplainVerb, AMisspeltKernelIsRefusedWithItsPlaceAndTheNearestName) {
  const RunResult result =
      Explain("{shape: {q_heads: 8, head_dim: 64}, seq_len: 1K, mask: full, kernel: [cpu_tild]}");
  EXPECT_EQ(result.code, ExitCode::kSuite);
  EXPECT_THAT(result.err,
              HasSubstr(".yaml:3:75: unknown kernel 'cpu_tild'; did you mean 'cpu_tiled'?"));
  EXPECT_EQ(result.out, "");
}

TEST(ExplainVerb, NoTokensAndHeadsThatDoNotDivideAreRefused) {
  const RunResult none =
      Explain("{shape: {q_heads: 8, head_dim: 64}, seq_len: [0], mask: full, kernel: cpu_tiled}");
  EXPECT_EQ(none.code, ExitCode::kSuite);
  EXPECT_THAT(none.err, HasSubstr("seq_len is '0'; it must be from 1"));
  const RunResult heads = Explain(
      "{shape: {q_heads: 33, kv_heads: 2, head_dim: 64}, seq_len: 1K, mask: full, "
      "kernel: cpu_tiled}");
  EXPECT_EQ(heads.code, ExitCode::kSuite);
  EXPECT_THAT(heads.err, HasSubstr("q_heads is 33 and kv_heads is 2"));
}

TEST(ExplainVerb, RanksThatAStrategyCannotUseAreARowWithTheReason) {
  const RunResult result = Explain(
      "{shape: {q_heads: 8, head_dim: 64}, seq_len: 1K, mask: full, kernel: cpu_tiled, "
      "strategy: ulysses, ranks: [3]}");
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_THAT(result.out, HasSubstr("unsupported: strategy ulysses on 3 ranks: ulysses gives each "
                                    "rank its own heads, and 3 does not divide 8 query"));
  EXPECT_THAT(result.out, HasSubstr("1 trial in 1 cohort, 1 unsupported"));
}

TEST(ExplainVerb, RowsHaveExactWork) {
  const RunResult result = Explain(
      "{shape: {q_heads: 16, kv_heads: 4, qk_head_dim: 192, v_head_dim: 128}, seq_len: 2K, "
      "mask: causal, kernel: cpu_tiled, strategy: ring, ranks: 4}",
      "json");
  ASSERT_EQ(result.code, ExitCode::kOk) << result.err;
  const nlohmann::json rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 1U);
  // Case S4.
  EXPECT_EQ(rows[0].at("flops").get<int64_t>(), 21'485'322'240);
  EXPECT_EQ(rows[0].at("bytes_formula").get<int64_t>(), 4 * 3'932'160);
  EXPECT_EQ(rows[0].at("strategy"), "ring");
  EXPECT_EQ(rows[0].at("unsupported_reason"), nullptr);
  EXPECT_GT(rows[0].at("iteration_seconds").get<double>(), 0);
}

TEST(ExplainVerb, ASuiteThatIsNotThereIsRefused) {
  const RunResult result = RunForTest({"explain", "quik"});
  EXPECT_EQ(result.code, ExitCode::kSuite);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'quick'?"));
}

TEST(ListVerb, NamesEverythingWithItsParameters) {
  const RunResult masks = RunForTest({"list", "masks", "--output", "json"});
  ASSERT_EQ(masks.code, ExitCode::kOk) << masks.err;
  std::set<std::string> names;
  for (const nlohmann::json& row : nlohmann::json::parse(masks.out)) {
    names.insert(row.at("name").get<std::string>());
  }
  EXPECT_EQ(names.size(), MaskTypes().size());
  EXPECT_TRUE(names.contains("causal"));
  EXPECT_THAT(RunForTest({"list", "masks"}).out, HasSubstr("        window: "));
  EXPECT_THAT(RunForTest({"list", "kernels"}).out,
              AllOf(HasSubstr("cpu_tiled\n"), HasSubstr("cpu_reference\n")));
  EXPECT_THAT(RunForTest({"list", "strategies"}).out,
              AllOf(HasSubstr("ring_zigzag\n"), HasSubstr("ulysses\n"), HasSubstr("single\n")));
  EXPECT_THAT(RunForTest({"list", "suites", "--output", "csv"}).out,
              AllOf(HasSubstr("name,description,parameters\r\n"), HasSubstr("\r\nquick,")));
  EXPECT_EQ(RunForTest({"list", "everything"}).code, ExitCode::kUsage);
}

// Limits are exact: a mask has 2^31 tokens at most.
TEST(ListVerb, RangesAreWrittenAsASuiteWouldHaveThem) {
  const RunResult result = RunForTest({"list", "masks"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("(0 to 2147483648)"), Not(HasSubstr("e+09"))));
}

TEST(ListVerb, HiddenKernelsStandInNoList) {
  const suites::Catalogue catalogue = suites::Catalogue::Builtin();
  const std::string listed = RunForTest({"list", "kernels"}).out;
  int hidden = 0;
  for (const Kernel* kernel : BuiltinKernels().List(/*with_hidden=*/true)) {
    if (!kernel->hidden()) continue;
    ++hidden;
    EXPECT_THAT(listed, Not(HasSubstr(kernel->name() + "\n")));
    EXPECT_NE(catalogue.FindKernel(kernel->name()), nullptr);
  }
  EXPECT_GT(hidden, 0);
}

TEST(VersionVerb, NamesReleaseAndCommit) {
  EXPECT_THAT(RunForTest({"version"}).out, AllOf(HasSubstr("lcab "), HasSubstr("commit ")));
}

TEST(CompletionVerb, OffersEveryVerbAndOption) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const RunResult result = RunForTest({"completion", shell});
    ASSERT_EQ(result.code, ExitCode::kOk);
    for (const auto& verb : MakeVerbs()) {
      if (verb->hidden()) continue;
      EXPECT_THAT(result.out, HasSubstr(std::string(verb->name()))) << shell;
    }
    EXPECT_THAT(result.out, HasSubstr("output")) << shell;
    EXPECT_THAT(result.out, HasSubstr("table json csv")) << shell;
  }
  EXPECT_EQ(RunForTest({"completion", "cmd"}).code, ExitCode::kUsage);
}

// The script is run by the shell it is for: what it offers is what a user would see.
TEST(CompletionVerb, BashOffersWhatFits) {
  const std::string script = RunForTest({"completion", "bash"}).out;
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "lcab_completion.bash";
  const auto offered = [&](const std::string& words, int at) {
    std::ofstream(path) << script << "COMP_WORDS=(" << words << ")\nCOMP_CWORD=" << at
                        << "\n_lcab_client\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    FILE* pipe = ::popen(("bash " + path.string()).c_str(), "r");
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    EXPECT_EQ(::pclose(pipe), 0);
    return text;
  };
  EXPECT_EQ(offered("lcab-client exp", 1), "explain\n");
  EXPECT_EQ(offered("lcab-client list ma", 2), "masks\n");
  EXPECT_EQ(offered("lcab-client list masks --output c", 4), "csv\n");
  std::filesystem::remove(path);
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Docs, CliPageIsWhatTheProgramPrints) {
  EXPECT_EQ(ReadText("docs/cli.md"), RunForTest({"reference", "cli"}).out)
      << "run: lcab-client reference cli > docs/cli.md";
}

TEST(Docs, ResultsPageIsWhatTheProgramPrints) {
  EXPECT_EQ(ReadText("docs/results.md"), RunForTest({"reference", "results"}).out)
      << "run: lcab-client reference results > docs/results.md";
}

// Defect 10 of the benchmark that LCAB follows: the command of its own README did not exist.
TEST(Docs, EveryCommandOnAPageExists) {
  std::set<std::string> verbs;
  for (const auto& verb : MakeVerbs()) verbs.insert(std::string(verb->name()));
  std::set<std::string> targets;
  std::istringstream makefile(ReadText("Makefile"));
  for (std::string line; std::getline(makefile, line);) {
    if (const size_t colon = line.find(':'); colon != std::string::npos) {
      targets.insert(line.substr(0, colon));
    }
  }
  int commands = 0;
  std::vector<std::string> pages = {"README.md"};
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    pages.push_back(entry.path().string());
  }
  for (const std::string& page : pages) {
    std::istringstream lines(ReadText(page));
    bool code = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("```")) code = !code;
      if (!code) continue;
      std::istringstream words(line);
      std::string program;
      std::string word;
      words >> program >> word;
      if (program == "$") {
        program = word;
        words >> word;
      }
      if (program.ends_with("lcab-client") && word.find_first_of("[-|V") != 0 && !word.empty()) {
        EXPECT_TRUE(verbs.contains(word)) << page << ": " << line;
        ++commands;
      } else if (program == "make" && !word.empty()) {
        EXPECT_TRUE(targets.contains(word)) << page << ": " << line;
        ++commands;
      }
    }
  }
  EXPECT_GE(commands, 10);
}

TEST(Docs, EveryLinkOfAPageLeadsSomewhere) {
  std::vector<std::filesystem::path> pages = {"README.md", "CONTRIBUTING.md", "cmake/README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator("docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  int links = 0;
  for (const std::filesystem::path& page : pages) {
    const std::string text = ReadText(page.string());
    for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
      target = target.substr(0, target.find('#'));
      // A space: a lambda in a piece of code.
      if (target.empty() || target.find_first_of(": ") != std::string::npos) continue;
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / target)) << page << ": " << target;
      ++links;
    }
  }
  EXPECT_GE(links, 20);
}

TEST(Docs, EveryVerbHasHelpWithAnExample) {
  for (const auto& verb : MakeVerbs()) {
    EXPECT_NE(verb->summary(), "") << verb->name();
    EXPECT_THAT(std::string(verb->example()), HasSubstr(std::string(verb->name())));
    const RunResult help = RunForTest({std::string(verb->name()), "--help"});
    EXPECT_EQ(help.code, ExitCode::kOk);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100U) << line;
    }
    for (const Argument& argument : verb->Arguments()) {
      EXPECT_NE(argument.description, "") << verb->name() << " " << argument.name;
    }
  }
}

TEST(ExitCodes, AreDistinctAndEachHasItsMeaning) {
  std::set<int> codes;
  for (const auto& [code, meaning] : kExitCodes) {
    EXPECT_TRUE(codes.insert(static_cast<int>(code)).second);
    EXPECT_NE(meaning, "");
  }
  EXPECT_EQ(*codes.begin(), 0);
  // What shells say of a program that SIGINT ended.
  EXPECT_EQ(*codes.rbegin(), 128 + SIGINT);
}

// Case T4: a failure is no success, and `unsupported` is no failure.
TEST(ExitCodes, OfAJobFollowFromItsTrials) {
  v1::TrialCounts counts;
  counts.set_total(3);
  counts.set_ok(2);
  counts.set_unsupported(1);
  EXPECT_EQ(JobExitCode(counts), ExitCode::kOk);
  counts.set_ok(1);
  counts.set_wrong_result(1);
  EXPECT_EQ(JobExitCode(counts), ExitCode::kTrials);
  for (const auto set : {&v1::TrialCounts::set_out_of_memory, &v1::TrialCounts::set_timed_out,
                         &v1::TrialCounts::set_crashed, &v1::TrialCounts::set_lost}) {
    v1::TrialCounts failed;
    failed.set_total(2);
    failed.set_cancelled(1);
    (failed.*set)(1);
    EXPECT_EQ(JobExitCode(failed), ExitCode::kTrials);
  }
  v1::TrialCounts cancelled;
  cancelled.set_total(2);
  cancelled.set_ok(1);
  cancelled.set_cancelled(1);
  EXPECT_EQ(JobExitCode(cancelled), ExitCode::kCancelled);
}

TEST(ExitCodes, FollowFromTheStatusOfACall) {
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kOk), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kUnavailable), ExitCode::kServer);
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kDeadlineExceeded), ExitCode::kServer);
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kNotFound), ExitCode::kRefused);
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kFailedPrecondition), ExitCode::kRefused);
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kCancelled), ExitCode::kCancelled);
  EXPECT_EQ(ExitCodeOf(absl::StatusCode::kInternal), ExitCode::kInternal);
}

}  // namespace
}  // namespace lcab::client
