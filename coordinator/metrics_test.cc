#include "coordinator/metrics.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "coordinator/core.h"
#include "coordinator/placing.h"
#include "coordinator/reports.h"
#include "coordinator/test_specs.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "service/promtool_for_test.h"

namespace lcab::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Scrape(const Metrics& metrics) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics.Collect());
  return std::move(text).str();
}

int64_t CountSeries(const std::string& scrape) {
  std::istringstream lines(scrape);
  int64_t series = 0;
  for (std::string line; std::getline(lines, line);) series += line[0] == '#' ? 0 : 1;
  return series;
}

TrialEnded MakeEnded(v1::Outcome outcome) {
  return {.trial = "jobs/1/trials/0",
          .kernel = "tiled",
          .mask = "causal",
          .strategy = "single",
          .pass = v1::PASS_FORWARD,
          .result = MakeResult(outcome)};
}

TEST(Metrics, RateIsThatOfTheLastTrialThatWasOkAndFailuresHaveNone) {
  Metrics metrics;
  metrics.Count(MakeEnded(v1::OUTCOME_WRONG_RESULT));
  EXPECT_THAT(Scrape(metrics), Not(HasSubstr("lcab_trial_flops_per_second{")));
  TrialEnded ended = MakeEnded(v1::OUTCOME_OK);
  ended.result.set_flops(3'000'000'000);
  ended.result.mutable_statistics()->set_median_seconds(0.5);
  metrics.Count(ended);
  ended.result.mutable_statistics()->set_median_seconds(0);  // no time, no rate
  metrics.Count(ended);
  const std::string scrape = Scrape(metrics);
  EXPECT_THAT(scrape, HasSubstr("lcab_trial_flops_per_second{kernel=\"tiled\",mask=\"causal\",pass="
                                "\"forward\",strategy=\"single\"} 6000000000"));
  EXPECT_THAT(scrape,
              HasSubstr("outcome=\"wrong_result\",pass=\"forward\",strategy=\"single\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("outcome=\"ok\",pass=\"forward\",strategy=\"single\"} 2"));
  EXPECT_THAT(scrape, Not(HasSubstr("nan")));
  EXPECT_THAT(scrape, Not(HasSubstr("inf\n")));
}

TEST(Metrics, WorkerThatLeftIsMarkedAndLaterGone) {
  Metrics metrics;
  MetricsSnapshot snapshot;
  snapshot.workers.push_back(
      {.worker = "w1", .connected = true, .devices = {{"epyc", 2}}, .busy_devices = {{"epyc", 1}}});
  metrics.SetSnapshot([&] { return snapshot; });
  std::string scrape = Scrape(metrics);
  EXPECT_THAT(scrape, HasSubstr("lcab_worker_up{worker=\"w1\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("lcab_worker_busy_devices{device=\"epyc\",worker=\"w1\"} 1"));
  snapshot.workers[0].connected = false;
  scrape = Scrape(metrics);
  EXPECT_THAT(scrape, HasSubstr("lcab_worker_up{worker=\"w1\"} 0"));
  EXPECT_THAT(scrape, Not(HasSubstr("lcab_worker_busy_devices{")));
  snapshot.workers.clear();
  EXPECT_THAT(Scrape(metrics), Not(HasSubstr("w1")));
  metrics.SetSnapshot(nullptr);
}

TEST(Metrics, EveryFamilyIsInTheListAndTheListIsServed) {
  Metrics metrics;
  MetricsSnapshot snapshot{.jobs = {{"queued", 1}}, .trials = {{"pending", 1}}};
  snapshot.workers.push_back({.worker = "w1", .connected = true, .devices = {{"epyc", 2}}});
  metrics.SetSnapshot([&] { return snapshot; });
  metrics.Count(MakeEnded(v1::OUTCOME_OK));
  metrics.Count(AttemptEnded{.outcome = v1::OUTCOME_OK});
  std::set<std::string> served;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    served.insert(family.name);
    const auto info = std::find_if(MetricList().begin(), MetricList().end(),
                                   [&](const MetricInfo& i) { return i.name == family.name; });
    ASSERT_NE(info, MetricList().end()) << family.name;
    EXPECT_EQ(family.help, info->help);
    ASSERT_FALSE(family.metric.empty()) << family.name;
    std::set<std::string> labels;
    for (const auto& label : family.metric[0].label) labels.insert(label.name);
    std::set<std::string> listed;
    std::istringstream words{std::string(info->labels)};
    for (std::string word; words >> word;) listed.insert(word.substr(0, word.find(',')));
    EXPECT_EQ(labels, listed) << family.name;
    const bool both = labels.count("worker") > 0 && labels.count("kernel") > 0;
    EXPECT_FALSE(both) << family.name << " multiplies workers by kernels";
  }
  EXPECT_EQ(served.size(), MetricList().size());
  metrics.SetSnapshot(nullptr);
}

TEST(Metrics, DocumentationIsTheList) {
  std::ifstream file("docs/metrics.md");
  ASSERT_TRUE(file) << "tests run in the root of the sources";
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string table = service::MetricTable(MetricList());
  EXPECT_THAT(page, HasSubstr(table)) << "docs/metrics.md should hold this:\n" << table;
}

class CoreTest : public testing::Test {
 protected:
  CoreTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/core.{}", testing::TempDir(), info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    auto core = Core::Open(folder_ + "/lcab.db", {});
    EXPECT_TRUE(core.ok()) << core.status();
    core_ = *std::move(core);
    v1::Hello hello;
    hello.set_worker_id("w1");
    hello.set_incarnation("1");
    v1::Device& device = *hello.add_devices();
    device.set_id("cpu:0");
    device.set_kind("cpu");
    device.set_model("epyc");
    session_ = core_->fleet().Enter([] {}, core_->Now());
    EXPECT_TRUE(core_->fleet().Identify(session_, hello, core_->Now()).ok());
    core_->fleet().Welcome(session_, {});
    core_->fleet().Connect(session_);
  }
  ~CoreTest() override {
    core_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Submits and runs `count` jobs of one trial, each with a name, a shape and a submitter of its
  // own.
  void RunJobs(int count) {
    constexpr int kOfAChange = 50;
    for (int done = 0; done < count; done += kOfAChange) {
      const absl::Status status = core_->Change([&](Step& step) {
        for (int i = 0; i < kOfAChange; ++i) RunJob(step);
        return absl::OkStatus();
      });
      ASSERT_TRUE(status.ok()) << status;
      // What was sent to the worker is read by nobody here.
      while (session_->Next(absl::ZeroDuration()).has_value()) {
      }
    }
  }

  void RunJob(Step& step) {
    ++job_;
    v1::SubmitJobRequest request;
    request.set_submitter(fmt::format("user {}", job_));
    Expansion expansion = MakeExpansion({{"tiled"}});
    expansion.suite_name = fmt::format("suite {}", job_);
    v1::Problem& problem = *expansion.cohorts[0].mutable_trials(0)->mutable_problem();
    problem.set_q_tokens(1000 + job_);
    problem.set_k_tokens(1000 + job_);
    ASSERT_TRUE(SubmitJob(step, request, expansion).ok());
    Claim(step, {.cohort = job_, .trials = {0}, .devices = {{"w1", "cpu:0"}}});
    const auto& send = std::get<SendToWorker>(step.effects.actions.back());
    v1::AssignmentEvent event;
    event.set_assignment(send.message.assign().assignment());
    event.set_incarnation("1");
    event.set_sequence(2 * job_);
    event.mutable_trial_ended()->set_attempt(1);
    *event.mutable_trial_ended()->mutable_result() = MakeResult(v1::OUTCOME_OK);
    event.mutable_trial_ended()->mutable_result()->mutable_environment()->set_lcab_commit(
        fmt::format("commit {}", job_));
    std::string ignored;
    HandleEvent(step, "w1", event, ignored);
    event.set_sequence(2 * job_ + 1);
    event.mutable_ended();
    HandleEvent(step, "w1", event, ignored);
    EXPECT_EQ(ignored, "");
  }

  std::string folder_;
  std::unique_ptr<Core> core_;
  SessionPtr session_;
  int64_t job_ = 0;
};

// Case V5.
TEST_F(CoreTest, SeriesDoNotGrowWithJobsAndAScrapeIsQuick) {
  RunJobs(100);
  const int64_t early = CountSeries(Scrape(core_->metrics()));
  RunJobs(9'900);
  const absl::Time begin = absl::Now();
  const std::string scrape = Scrape(core_->metrics());
  const absl::Duration took = absl::Now() - begin;
  EXPECT_EQ(CountSeries(scrape), early);
  EXPECT_THAT(scrape, HasSubstr("outcome=\"ok\",pass=\"forward\",strategy=\"single\"} 10000"));
  EXPECT_LT(took, absl::Milliseconds(100));
  EXPECT_THAT(scrape, HasSubstr("lcab_worker_up{worker=\"w1\"} 1"));
  core_->fleet().Leave(session_);
  EXPECT_THAT(Scrape(core_->metrics()), HasSubstr("lcab_worker_up{worker=\"w1\"} 0"));
}

TEST_F(CoreTest, PromtoolFindsNothingToMend) {
  RunJobs(50);
  core_->Tick();
  core_->metrics().Count(AttemptEnded{.outcome = v1::OUTCOME_CRASHED, .fault = v1::FAULT_KERNEL});
  const std::optional<std::string> said = service::CheckWithPromtool(Scrape(core_->metrics()));
  if (!said.has_value()) GTEST_SKIP() << "promtool is not installed; make deps-test gets it";
  EXPECT_EQ(*said, "");
}

TEST_F(CoreTest, RoundOfSchedulingIsQuickWithTenThousandJobsWaiting) {
  for (int change = 0; change < 100; ++change) {
    ASSERT_TRUE(core_
                    ->Change([&](Step& step) {
                      for (int i = 0; i < 100; ++i) {
                        v1::SubmitJobRequest request;
                        request.set_submitter(fmt::format("user {}", i));
                        EXPECT_TRUE(SubmitJob(step, request, MakeExpansion({{"other"}})).ok());
                      }
                      return absl::OkStatus();
                    })
                    .ok());
  }
  const absl::Time begin = absl::Now();
  core_->Tick();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  EXPECT_THAT(core_->WaitingReason(10'000), HasSubstr("offers kernel other"));
}

}  // namespace
}  // namespace lcab::coordinator
