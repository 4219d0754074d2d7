// The daemons as docs/run.md starts them: over TCP, with their metrics and health.

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "service/promtool_for_test.h"
#include "tests/fleet.h"

namespace lcab::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

// The number that follows `label` in what a program printed; 0 until it is there.
int NumberAfter(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + label.size());
}

class DaemonsTest : public testing::Test {
 protected:
  // A coordinator and two workers, each on ports of its own choice.
  void SetUp() override {
    coordinator_ = fleet_.StartProgram(
        "lcab-coordinator",
        {"--listen", "127.0.0.1:0", "--db", fleet_.db(), "--metrics-listen", "127.0.0.1:0"},
        "coordinator.log");
    const int port = WaitForNumber("coordinator.log", "listening on 127.0.0.1:");
    coordinator_metrics_ = WaitForNumber("coordinator.log", "metrics on port ");
    server_ = fmt::format("127.0.0.1:{}", port);
    for (int n = 0; n < 2; ++n) {
      const std::string name = fmt::format("w{}", n + 1);
      workers_[n] = fleet_.StartProgram(
          "lcab-worker",
          {"--coordinator", server_, "--name", name, "--cpu-slots", "1", "--state-dir",
           fleet_.folder() + "/" + name, "--metrics-listen", "127.0.0.1:0"},
          name + ".log");
      worker_metrics_[n] = WaitForNumber(name + ".log", "metrics port=");
    }
  }
  void TearDown() override {
    for (auto& worker : workers_) worker->Signal(SIGTERM);
    for (auto& worker : workers_) EXPECT_EQ(CodeOf(*worker), 0);
    coordinator_->Signal(SIGTERM);
    EXPECT_EQ(CodeOf(*coordinator_), 0);
  }
  int WaitForNumber(const std::string& log, const std::string& label) {
    int number = 0;
    EXPECT_TRUE(Eventually([&] { return (number = NumberAfter(fleet_.Read(log), label)) > 0; }))
        << label;
    return number;
  }
  static std::string Get(int port, const std::string& path, int status = 200) {
    httplib::Client client("127.0.0.1", port);
    client.set_read_timeout(10);
    const auto reply = client.Get(path);
    if (!reply) {
      ADD_FAILURE() << path << ": no answer";
      return {};
    }
    EXPECT_EQ(reply->status, status) << reply->body;
    return reply->body;
  }

  Fleet fleet_;
  std::unique_ptr<worker::ChildProcess> coordinator_;
  std::unique_ptr<worker::ChildProcess> workers_[2];
  std::string server_;
  int coordinator_metrics_ = 0;
  int worker_metrics_[2] = {0, 0};
  int failures_ = 0;
};

TEST_F(DaemonsTest, AJobRunsOnBothWorkersAndEveryMetricPassesPromtool) {
  const std::string suite = fleet_.Write(
      "suite.yaml",
      Fleet::Suite("  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n    seq_len: [128, 256]\n"
                   "    mask: causal\n    kernel: [cpu_tiled, test_unsupported]\n"
                   "  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n    seq_len: 128\n"
                   "    mask: causal\n    kernel: cpu_tiled\n    strategy: ring\n    ranks: 2\n"));
  const ClientResult watched = fleet_.Client({"submit", suite, "--watch", "--server", server_});
  EXPECT_EQ(watched.code, 0) << watched.out;
  const ClientResult results = fleet_.Client({"results", "--output", "json", "--server", server_});
  const auto rows = nlohmann::json::parse(results.out, nullptr, false);
  ASSERT_EQ(rows.size(), 5u) << results.out;

  for (const int port : {coordinator_metrics_, worker_metrics_[0], worker_metrics_[1]}) {
    EXPECT_EQ(Get(port, "/healthz"), "ok\n");
    const std::optional<std::string> said = service::CheckWithPromtool(Get(port, "/metrics"));
    EXPECT_EQ(said.value_or(""), "");
  }
  EXPECT_THAT(Get(coordinator_metrics_, "/metrics"), HasSubstr("lcab_worker_up{worker=\"w1\"} 1"));
  EXPECT_THAT(Get(worker_metrics_[0], "/metrics"), HasSubstr("lcab_worker_connected 1"));
}

// In the spirit of case D3: liveness is answered while every core is busy with a trial.
TEST_F(DaemonsTest, HealthIsAnsweredWhileTheMachineIsBusy) {
  std::atomic<bool> over = false;
  std::vector<std::thread> spinners;
  for (unsigned n = 0; n < 2 * std::thread::hardware_concurrency(); ++n) {
    spinners.emplace_back([&over] {
      while (!over) {
      }
    });
  }
  const std::string suite = fleet_.Write(
      "suite.yaml",
      Fleet::Suite("  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n    seq_len: 1024\n"
                   "    mask: full\n    kernel: cpu_reference\n",
                   "{min_samples: 1000, max_samples: 1000, max_time: 4s, timeout: 120s}"));
  auto watching =
      fleet_.StartClient({"submit", suite, "--watch", "--server", server_}, "watch.out");
  int answers = 0;
  while (!watching->TryReap().has_value()) {
    for (const int port : worker_metrics_) EXPECT_EQ(Get(port, "/healthz"), "ok\n");
    ++answers;
  }
  over = true;
  for (std::thread& spinner : spinners) spinner.join();
  EXPECT_EQ(CodeOf(*watching), 0) << fleet_.Read("watch.out");
  EXPECT_GT(answers, 10);
}

// A full disk, as a limit on the size of files: what SQLite meets is the same.
TEST_F(DaemonsTest, ACoordinatorThatCannotWriteSaysSoHandsOutNothingAndGoesOnOnceItCan) {
  const auto limit = [&](rlim_t bytes) {
    const rlimit value{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    EXPECT_EQ(prlimit(coordinator_->pid(), RLIMIT_FSIZE, &value, nullptr), 0);
  };
  const std::string suite = fleet_.Write(
      "suite.yaml", Fleet::Suite("  - shape: {q_heads: 2, head_dim: 32, dtype: bf16}\n"
                                 "    seq_len: 128\n    mask: full\n    kernel: cpu_tiled\n"));
  limit(4096);
  const ClientResult refused = fleet_.Client({"submit", suite, "--server", server_});
  EXPECT_EQ(refused.code, 8) << refused.out;
  EXPECT_THAT(refused.out, AllOf(HasSubstr(fleet_.db()), HasSubstr("ulimit -f")));
  EXPECT_THAT(Get(coordinator_metrics_, "/healthz", 503), HasSubstr("ulimit -f"));
  EXPECT_THAT(fleet_.Client({"jobs", "--server", server_}).out, HasSubstr("There are no jobs"));
  limit(RLIM_INFINITY);
  EXPECT_EQ(fleet_.Client({"submit", suite, "--watch", "--server", server_}).code, 0);
  EXPECT_EQ(Get(coordinator_metrics_, "/healthz"), "ok\n");
}

TEST_F(DaemonsTest, ADaemonThatCannotStartSaysWhyAndHowToMendIt) {
  const auto fails = [&](const std::string& program, const std::vector<std::string>& words) {
    const std::string output = fmt::format("failed-{}.out", ++failures_);
    const auto process = fleet_.StartProgram(program, words, output);
    EXPECT_NE(CodeOf(*process), 0);
    return fleet_.Read(output);
  };
  EXPECT_THAT(fails("lcab-worker", {"--coordinator", server_, "--name", "w1", "--state-dir",
                                    fleet_.folder() + "/w1", "--metrics-listen", ""}),
              HasSubstr("another worker uses the state folder"));
  EXPECT_THAT(fails("lcab-worker", {"--coordinator", server_, "--name", "w3", "--state-dir",
                                    fleet_.folder() + "/w3", "--metrics-listen",
                                    fmt::format("127.0.0.1:{}", worker_metrics_[0])}),
              AllOf(HasSubstr("--metrics-listen"), Not(HasSubstr("worker started"))));
  EXPECT_FALSE(std::filesystem::exists(fleet_.folder() + "/w3"));
  EXPECT_THAT(fails("lcab-worker", {"--name", "W 3", "--metrics-listen", ""}),
              HasSubstr("is no name for a worker"));
  EXPECT_THAT(fails("lcab-worker", {"--runner", "/no/such/runner", "--state-dir",
                                    fleet_.folder() + "/w4", "--metrics-listen", ""}),
              HasSubstr("--runner"));
  EXPECT_THAT(fails("lcab-worker", {"--cpu-slots", "0", "--state-dir", fleet_.folder() + "/w5",
                                    "--metrics-listen", ""}),
              HasSubstr("a worker has 1 to"));
  // One line, ours.
  EXPECT_THAT(fails("lcab-coordinator", {"--listen", server_, "--db", fleet_.folder() + "/other.db",
                                         "--metrics-listen", "", "--log-level", "error"}),
              MatchesRegex("lcab-coordinator: cannot listen on " + server_ + ".*--listen\n"));
  EXPECT_FALSE(std::filesystem::exists(fleet_.folder() + "/other.db"));
  EXPECT_THAT(
      fails("lcab-coordinator",
            {"--listen", "127.0.0.1:0", "--db", fleet_.folder() + "/other.db", "--metrics-listen",
             fmt::format("127.0.0.1:{}", coordinator_metrics_)}),
      AllOf(HasSubstr("--metrics-listen"), Not(HasSubstr("started")), Not(HasSubstr("opened"))));
  EXPECT_FALSE(std::filesystem::exists(fleet_.folder() + "/other.db"));
}

TEST_F(DaemonsTest, OptionsThatMakeNoSenseAreRefusedWithTheirRange) {
  struct Refusal {
    std::string program;
    std::vector<std::string> words;
    std::string says;
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {"lcab-worker", {"--no-such-option"}, "--no-such-option"},
           {"lcab-worker", {"--cpu-slots", "many"}, "--cpu-slots"},
           {"lcab-worker", {"--metrics-listen", "", "--memory-limit", "-5"}, "--memory-limit"},
           {"lcab-worker",
            {"--metrics-listen", "", "--data-interface", "nosuch0"},
            "its interfaces are: "},
           {"lcab-coordinator", {"--no-such-option"}, "--no-such-option"},
           {"lcab-coordinator", {"--heartbeat-timeout", "nan"}, "0.1 to 86400 seconds"},
           {"lcab-coordinator", {"--heartbeat-timeout", "-1"}, "0.1 to 86400 seconds"},
           {"lcab-coordinator", {"--grace", "inf"}, "0 to 3600 seconds"},
           {"lcab-coordinator", {"--grace", "nan"}, "0 to 3600 seconds"},
           {"lcab-coordinator", {"--max-attempts", "0"}, "1 to 100"},
           {"lcab-runner", {"--no-such-option"}, "--no-such-option"},
           {"lcab-runner", {"--fd", "99"}, "99 is not an open socket"},
           {"lcab-runner", {"--fd", "0"}, "0 is not an open socket"}}) {
    const std::string output = fmt::format("failed-{}.out", ++failures_);
    const auto process = fleet_.StartProgram(refusal.program, refusal.words, output);
    EXPECT_EQ(CodeOf(*process), 2) << refusal.program << " " << refusal.words.back();
    EXPECT_THAT(fleet_.Read(output), HasSubstr(refusal.says));
  }
}

TEST_F(DaemonsTest, ASecondWorkerOfANameIsToldWhoHasItAndWhatToDo) {
  const auto second =
      fleet_.StartProgram("lcab-worker",
                          {"--coordinator", server_, "--name", "w1", "--cpu-slots", "1",
                           "--state-dir", fleet_.folder() + "/second", "--metrics-listen", ""},
                          "second.log");
  EXPECT_TRUE(Eventually([&] {
    return fleet_.Read("second.log").find("the name 'w1' is in use") != std::string::npos;
  })) << fleet_.Read("second.log");
  EXPECT_THAT(fleet_.Read("second.log"), AllOf(HasSubstr("incarnation"), HasSubstr("on host"),
                                               HasSubstr("--name and --state-dir")));
  second->Signal(SIGTERM);
  EXPECT_EQ(CodeOf(*second), 0);
}

}  // namespace
}  // namespace lcab::tests
