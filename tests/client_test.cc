// lcab-client as people use it: `run` without a server, and the verbs that talk to one.

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fleet.h"

namespace lcab::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kTwoKernels[] =
    "  - shape: {q_heads: 2, kv_heads: 1, head_dim: 32, dtype: bf16}\n    seq_len: 128\n"
    "    mask: [full, causal]\n    kernel: cpu_tiled\n";

class ClientTest : public testing::Test {
 protected:
  std::string Write(const std::string& suite, const std::string& name = "suite.yaml") const {
    return fleet_.Write(name, suite);
  }
  ClientResult RunSuite(const std::string& suite, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"run", Write(suite), "--db", fleet_.db()};
    words.insert(words.end(), more.begin(), more.end());
    return fleet_.Client(words);
  }
  // What a program printed between progress and messages.
  static json Rows(const std::string& text) {
    const size_t begin = text.find('[');
    const size_t end = text.rfind(']');
    return begin == std::string::npos ? json()
                                      : json::parse(text.substr(begin, end - begin + 1), nullptr,
                                                    /*allow_exceptions=*/false);
  }

  Fleet fleet_;
};

TEST_F(ClientTest, RunMeasuresASuiteAndKeepsItsResults) {
  const ClientResult run = RunSuite(Fleet::Suite(
      std::string(kTwoKernels) +
      "  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n    seq_len: 128\n    mask: causal\n"
      "    kernel: cpu_tiled\n    strategy: [ring, ulysses]\n    ranks: 2\n"
      "    pass: [forward, backward]\n"));
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("6 trials: 6 ok"), HasSubstr("ulysses")));

  const ClientResult json_rows =
      fleet_.Client({"results", "--db", fleet_.db(), "--output", "json"});
  EXPECT_EQ(json_rows.code, 0) << json_rows.out;
  const json rows = json::parse(json_rows.out, nullptr, false);
  ASSERT_TRUE(rows.is_array()) << json_rows.out;
  ASSERT_EQ(rows.size(), 6u);
  for (const json& row : rows) {
    EXPECT_EQ(row["outcome"], "ok");
    EXPECT_GT(row["median_seconds"], 0);
    EXPECT_EQ(row["bytes_sent"], row["bytes_formula"]);
  }
  const ClientResult filtered = fleet_.Client({"results", "--db", fleet_.db(), "--strategy", "ring",
                                               "--pass", "backward", "--output", "json"});
  EXPECT_EQ(json::parse(filtered.out, nullptr, false).size(), 1u) << filtered.out;
}

TEST_F(ClientTest, AStoredTrialIsPrintedAsASuiteAndRunAgain) {
  ASSERT_EQ(
      RunSuite(Fleet::Suite("  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n    seq_len: 256\n"
                            "    mask: {name: causal_document, documents: pile, draws: 2}\n"
                            "    kernel: cpu_tiled\n    strategy: [ring, ulysses]\n    ranks: 2\n"))
          .code,
      0);
  const ClientResult printed = fleet_.Client({"repro", "1/3", "--from", fleet_.db()});
  EXPECT_EQ(printed.code, 0) << printed.out;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("# jobs/1/trials/3: ulysses"), HasSubstr("draw: 1")));
  const std::string again = fleet_.folder() + "/again.db";
  const ClientResult run =
      fleet_.Client({"repro", "1/3", "--from", fleet_.db(), "--run", "--db", again});
  EXPECT_EQ(run.code, 0) << run.out;
  const auto key = [&](const std::string& db, size_t row) {
    return json::parse(fleet_.Client({"results", "--db", db, "--output", "json"}).out, nullptr,
                       false)[row]["key"];
  };
  EXPECT_EQ(key(again, 0), key(fleet_.db(), 3));
  EXPECT_EQ(fleet_.Client({"repro", "9/9", "--from", fleet_.db()}).code, 6);
}

// Case T4, the suite: wrong_result makes the exit code, unsupported alone does not.
TEST_F(ClientTest, RunsExitCodeFollowsFromItsTrials) {
  const std::string shape =
      "  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n    seq_len: 128\n    mask: causal\n";
  EXPECT_EQ(RunSuite(Fleet::Suite(shape + "    kernel: [cpu_tiled, test_unsupported]\n")).code, 0);
  const ClientResult wrong =
      RunSuite(Fleet::Suite(shape + "    kernel: [test_last_row, test_unsupported]\n"));
  EXPECT_EQ(wrong.code, 4) << wrong.out;
  EXPECT_THAT(wrong.out, AllOf(HasSubstr("1 wrong_result"), HasSubstr("1 unsupported")));
  EXPECT_EQ(RunSuite(Fleet::Suite(shape + "    kernel: test_crash\n")).code, 4);
}

TEST_F(ClientTest, RunRefusesABadSuiteBeforeAnythingStarts) {
  const ClientResult run = RunSuite(
      Fleet::Suite("  - shape: {q_heads: 2, head_dim: 32}\n    seq_len: 128\n    mask: causal\n"
                   "    kernel: cpu_tild\n"));
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.out, AllOf(HasSubstr("suite.yaml:8:"), HasSubstr("did you mean 'cpu_tiled'")));
  EXPECT_THAT(fleet_.Client({"results", "--db", fleet_.db()}).out, HasSubstr("there is no file"));
  EXPECT_EQ(fleet_.Client({"run", "no-such-suite"}).code, 3);
}

std::string TenSlowTrials() {
  return Fleet::Suite(
      "  - shape: {q_heads: 1, head_dim: 16, dtype: bf16}\n"
      "    seq_len: [64, 65, 66, 67, 68, 69, 70, 71, 72, 73]\n    mask: full\n"
      "    kernel: {name: test_slow, delay_ms: 10}\n",
      "{min_samples: 1000, max_samples: 1000, max_time: 300ms, warmup: 1, timeout: 60s}");
}

TEST_F(ClientTest, AnInterruptCancelsARunAndResumeFinishesIt) {
  const std::string suite = Write(TenSlowTrials());
  auto run = fleet_.StartClient({"run", suite, "--db", fleet_.db()}, "run.out");
  ASSERT_TRUE(
      Eventually([&] { return fleet_.Read("run.out").find("[2/10]") != std::string::npos; }));
  run->Signal(SIGINT);
  EXPECT_EQ(CodeOf(*run), 7);
  const std::string out = fleet_.Read("run.out");
  EXPECT_THAT(out, AllOf(HasSubstr("Cancelling"), HasSubstr(" cancelled"), HasSubstr(" ok")));
  const ClientResult resumed =
      fleet_.Client({"run", suite, "--db", fleet_.db(), "--resume", "--output", "json"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  const json rows = json::parse(
      fleet_.Client({"results", "--db", fleet_.db(), "--output", "json"}).out, nullptr, false);
  ASSERT_EQ(rows.size(), 10u) << rows;
  for (const json& row : rows) EXPECT_EQ(row["outcome"], "ok");
}

TEST_F(ClientTest, ARunThatWasKilledIsResumedWhereItWasAndLeavesNoProcess) {
  const std::string suite = Write(TenSlowTrials());
  auto run = fleet_.StartClient({"run", suite, "--db", fleet_.db()}, "run.out");
  ASSERT_TRUE(
      Eventually([&] { return fleet_.Read("run.out").find("[2/10]") != std::string::npos; }));
  run->Signal(SIGKILL);
  EXPECT_EQ(CodeOf(*run), -SIGKILL);
  const ClientResult resumed = fleet_.Client({"run", suite, "--db", fleet_.db(), "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("10 trials: 10 ok"));
  // Nothing was measured twice: one job, ten results.
  const json rows = json::parse(
      fleet_.Client({"results", "--db", fleet_.db(), "--output", "json"}).out, nullptr, false);
  EXPECT_EQ(rows.size(), 10u) << rows;
  // Once more does nothing but show them.
  const absl::Time start = absl::Now();
  EXPECT_THAT(fleet_.Client({"run", suite, "--db", fleet_.db(), "--resume"}).out,
              HasSubstr("10 trials: 10 ok"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

// Lists come in pages of 50 jobs. The newer ones are unsupported, and end at once.
TEST_F(ClientTest, ResumeFindsItsJobBehindAHundredNewerOnes) {
  const std::string text = Fleet::Suite(kTwoKernels);
  const std::string others = Fleet::Suite(
      "  - shape: {q_heads: 8, head_dim: 32, dtype: bf16}\n    seq_len: 128\n    mask: causal\n"
      "    kernel: cpu_tiled\n    strategy: ulysses\n    ranks: 3\n");
  fleet_.StartCoordinator();
  const std::string job = fleet_.Submit(text);
  for (int n = 0; n < 100; ++n) fleet_.Submit(others);
  fleet_.KillCoordinator();
  const ClientResult resumed = fleet_.Client({"run", Write(text), "--db", fleet_.db(), "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr(job + " is kept"), HasSubstr("2 trials: 2 ok")));
}

TEST_F(ClientTest, WithoutACoordinatorEveryVerbSaysWhatToDo) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"jobs"},
                                             {"job", "1"},
                                             {"watch", "1"},
                                             {"cancel", "1"},
                                             {"retry", "1"},
                                             {"logs", "1/1"},
                                             {"results"},
                                             {"workers"},
                                             {"drain", "w1"},
                                             {"submit", "quick"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--server", "127.0.0.1:1"});
    const ClientResult result = fleet_.Client(all);
    EXPECT_EQ(result.code, 5) << words[0] << ": " << result.out;
    EXPECT_THAT(result.out, AllOf(HasSubstr("no coordinator at 127.0.0.1:1"),
                                  HasSubstr("lcab-coordinator --listen 127.0.0.1:1")))
        << words[0];
  }
}

TEST_F(ClientTest, AJobIsSubmittedWatchedAndToldOverAServer) {
  fleet_.StartCoordinator();
  fleet_.StartWorker("w1", 2);
  const auto client = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--server", fleet_.address()});
    return fleet_.Client(words);
  };
  EXPECT_THAT(client({"workers"}).out, AllOf(HasSubstr("workers/w1"), HasSubstr("connected")));
  EXPECT_THAT(client({"jobs"}).out, HasSubstr("There are no jobs"));

  const std::string suite = Write(Fleet::Suite(kTwoKernels));
  const ClientResult watched = client({"submit", suite, "--watch"});
  EXPECT_EQ(watched.code, 0) << watched.out;
  EXPECT_THAT(watched.out, AllOf(HasSubstr("[2/2] ok"), HasSubstr("2 trials: 2 ok")));
  EXPECT_THAT(client({"jobs"}).out, AllOf(HasSubstr("jobs/1"), HasSubstr("succeeded")));
  EXPECT_THAT(client({"job", "1"}).out, HasSubstr("jobs/1/trials/1"));
  EXPECT_EQ(Rows(client({"results", "--job", "1", "--output", "json"}).out).size(), 2u);
  EXPECT_THAT(client({"results", "--output", "csv"}).out, HasSubstr("job,trial,"));
  EXPECT_EQ(client({"watch", "1"}).code, 0);  // of a job that has ended
  EXPECT_THAT(client({"logs", "1/0"}).out, HasSubstr("printed nothing"));

  // What cannot be is refused in words, with its own code.
  EXPECT_EQ(client({"cancel", "1"}).code, 6);
  EXPECT_EQ(client({"retry", "1"}).code, 6);
  EXPECT_EQ(client({"job", "99"}).code, 6);
  EXPECT_EQ(client({"logs", "1/99"}).code, 6);
  EXPECT_EQ(client({"drain", "w9"}).code, 6);
  const ClientResult refused = client({"submit", Write("name: x\nmatrices: []\n", "bad.yaml")});
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("bad.yaml:2:"));

  // A drained worker gets nothing new, and the job says why it waits.
  EXPECT_THAT(client({"drain", "w1"}).out, HasSubstr("draining"));
  const ClientResult waiting = client({"submit", suite});
  EXPECT_EQ(waiting.code, 0);
  EXPECT_THAT(waiting.out, HasSubstr("jobs/2\n"));
  EXPECT_TRUE(Eventually([&] {
    return client({"job", "2"}).out.find("drain") != std::string::npos;
  }));
  auto watch = fleet_.StartClient({"watch", "2", "--server", fleet_.address()}, "watch.out");
  EXPECT_TRUE(Eventually(
      [&] { return fleet_.Read("watch.out").find("jobs/2 waits: ") != std::string::npos; }));
  EXPECT_THAT(fleet_.Read("watch.out"), HasSubstr("drain"));
  EXPECT_EQ(client({"cancel", "2"}).code, 0);
  EXPECT_EQ(CodeOf(*watch), 7);
  EXPECT_EQ(client({"watch", "2"}).code, 7);
  EXPECT_EQ(client({"drain", "w1", "--undo"}).code, 0);
  EXPECT_EQ(client({"retry", "2", "--watch"}).code, 0);
}

TEST_F(ClientTest, TheServerComesFromTheEnvironmentOrTheConfigurationFile) {
  fleet_.SetVariable("LCAB_SERVER", "127.0.0.1:2");
  EXPECT_THAT(fleet_.Client({"jobs"}).out, HasSubstr("no coordinator at 127.0.0.1:2"));
  unsetenv("LCAB_SERVER");
  fleet_.SetVariable("LCAB_CONFIG", Write("server: 127.0.0.1:3\n", "config.yaml"));
  EXPECT_THAT(fleet_.Client({"jobs"}).out, HasSubstr("no coordinator at 127.0.0.1:3"));
}

TEST_F(ClientTest, ASecondInterruptEndsARunAtOnceAndResumeGoesOn) {
  const std::string suite = Write(TenSlowTrials());
  auto run = fleet_.StartClient({"run", suite, "--db", fleet_.db()}, "run.out");
  ASSERT_TRUE(
      Eventually([&] { return fleet_.Read("run.out").find("[2/10]") != std::string::npos; }));
  // Stopped, its runners do not end when they are told to: without the second it takes seconds.
  const std::vector<pid_t> runners = Fleet::ChildrenOf(run->pid());
  ASSERT_FALSE(runners.empty());
  for (const pid_t runner : runners) kill(runner, SIGSTOP);
  run->Signal(SIGINT);
  ASSERT_TRUE(
      Eventually([&] { return fleet_.Read("run.out").find("Cancelling") != std::string::npos; }));
  const absl::Time start = absl::Now();
  run->Signal(SIGINT);
  EXPECT_EQ(CodeOf(*run), 130);
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_THAT(fleet_.Read("run.out"), HasSubstr("Stopped at once."));
  EXPECT_TRUE(Eventually([&] {
    return std::none_of(runners.begin(), runners.end(),
                        [](pid_t pid) { return Fleet::IsAlive(pid); });
  }));
  const ClientResult resumed = fleet_.Client({"run", suite, "--db", fleet_.db(), "--resume"});
  EXPECT_THAT(resumed.out, AllOf(HasSubstr("10 trials: 10 ok"), Not(HasSubstr("]  "))));
}

// A full disk, as a limit on the size of files: what SQLite meets is the same.
TEST_F(ClientTest, ARunWhoseDatabaseCannotGrowEndsSoonAndSaysWhy) {
  const std::string suite = Write(TenSlowTrials());
  auto run = fleet_.StartShell(
      "ulimit -f 400; exec \"$LCAB_PROGRAMS/lcab-client\" run " + suite + " --db " + fleet_.db(),
      "run.out");
  EXPECT_EQ(CodeOf(*run), 8);
  EXPECT_THAT(fleet_.Read("run.out"),
              AllOf(HasSubstr("ulimit -f"), HasSubstr(fleet_.db()), HasSubstr("--resume")));
  EXPECT_THAT(fleet_.Client({"run", suite, "--db", fleet_.db(), "--resume"}).out,
              HasSubstr("10 trials: 10 ok"));
}

TEST_F(ClientTest, OutputThatCannotBeWrittenFailsEveryVerbAndAReaderThatLeftDoesNot) {
  for (const std::string words : {"list masks", "list suites --output json", "version", "--help",
                                  "completion bash", "run --help"}) {
    auto full =
        fleet_.StartShell("\"$LCAB_PROGRAMS/lcab-client\" " + words + " > /dev/full", "full.out");
    EXPECT_EQ(CodeOf(*full), 1) << words;
    EXPECT_THAT(fleet_.Read("full.out"), HasSubstr("cannot write to standard output"));
  }
  auto head = fleet_.StartShell(
      "{ \"$LCAB_PROGRAMS/lcab-client\" list masks; echo code $? >&2; } | true", "head.out");
  EXPECT_EQ(CodeOf(*head), 0);
  EXPECT_THAT(fleet_.Read("head.out"), AllOf(HasSubstr("code 0"), Not(HasSubstr("error"))));
}

TEST_F(ClientTest, ADatabaseThatCannotBeUsedIsOneCodeWhateverIsWrongWithIt) {
  const std::string suite = Write(Fleet::Suite(kTwoKernels));
  const auto expect = [&](const std::string& db, const std::string& words) {
    for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
             {"results", "--db", db}, {"repro", "1/0", "--from", db}, {"run", suite, "--db", db}}) {
      const ClientResult result = fleet_.Client(verb);
      EXPECT_EQ(result.code, 8) << verb[0] << ": " << result.out;
      EXPECT_THAT(result.out, HasSubstr(words)) << verb[0];
    }
  };
  expect(Write(std::string(8192, 'x'), "text.db"), "is no SQLite database");
  expect(fleet_.folder(), fleet_.folder());  // which is no file
  EXPECT_EQ(fleet_.Client({"results", "--db", fleet_.folder() + "/none.db"}).code, 8);
  EXPECT_EQ(fleet_.Client({"run", suite, "--db", fleet_.folder() + "/no/where.db"}).code, 8);

  // Two runs of one file that is not there yet: one makes it, the other is told.
  auto first = fleet_.StartClient({"run", suite, "--db", fleet_.db()}, "first.out");
  auto second = fleet_.StartClient({"run", suite, "--db", fleet_.db()}, "second.out");
  const int codes[] = {CodeOf(*first), CodeOf(*second)};
  EXPECT_THAT(codes, testing::Contains(0));
  if (codes[0] != 0 || codes[1] != 0) {
    EXPECT_THAT(codes, testing::Contains(8));
    EXPECT_THAT(fleet_.Read(codes[0] == 8 ? "first.out" : "second.out"),
                HasSubstr("is in use by another"));
  }
}

TEST_F(ClientTest, WhatIsNoAddressNameOrNumberIsRefusedBeforeAnybodyIsAsked) {
  using Words = std::vector<std::string>;
  for (const auto& [words, message] : std::vector<std::pair<Words, std::string>>{
           {{"jobs", "--server", "node:99999"},
            "--server: address 'node:99999' has no port between"},
           {{"jobs", "--server", "foo"}, "write host:port"},
           {{"jobs", "--server", "foo:0"}, "port 0"},
           {{"jobs", "--server", "unix:"}, "unix:/path"},
           {{"job", "jobs/x"}, "'jobs/x' is no job; write jobs/12 or 12"},
           {{"cancel", "x"}, "is no job"},
           {{"retry", "x"}, "is no job"},
           {{"watch", "x"}, "is no job"},
           {{"logs", "12"}, "is no trial; write jobs/12/trials/3 or 12/3"},
           {{"repro", "x"}, "is no trial"},
           {{"drain", "a b"}, "is no worker"},
           {{"results", "--job", "x"}, "is no job"},
           {{"results", "--limit", "-1"}, "--limit is -1; it must be 1 or more"},
           {{"results", "--ranks", "-1"}, "--ranks is -1"},
           {{"results", "--ranks", "4294967297"}, "--ranks is 4294967297"},
           {{"results", "--seq-len", "-5"}, "--seq-len is -5"},
           {{"jobs", "--limit", "0"}, "--limit is 0; it must be 1 or more"},
           {{"logs", "1/1", "--attempt", "-1"}, "--attempt is -1"},
           {{"logs", "1/1", "--rank", "-1"}, "--rank is -1"},
           {{"run", "quick", "--cpu-slots", "-1"}, "--cpu-slots is -1"},
           {{"submit", "quick", "--submitter", "a\x1b[2J"}, "'a\\x1b[2J'"},
           {{"submit", "quick", "--submitter", std::string(100'000, 'a')}, "at most 100 bytes"}}) {
    const ClientResult result = fleet_.Client(words);
    EXPECT_EQ(result.code, 2) << words[0] << ": " << result.out.substr(0, 1000);
    EXPECT_THAT(result.out, AllOf(HasSubstr(message), HasSubstr("See: lcab-client")));
    EXPECT_LT(result.out.size(), 1000u);
  }
}

}  // namespace
}  // namespace lcab::tests
