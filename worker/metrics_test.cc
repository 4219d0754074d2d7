#include "worker/metrics.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "service/promtool_for_test.h"

namespace lcab::worker {
namespace {

using testing::HasSubstr;

std::string Scrape(const Metrics& metrics) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics.registry()->Collect());
  return text.str();
}

TEST(WorkerMetrics, EveryOutcomeHasItsSeriesFromTheStart) {
  Metrics metrics;
  metrics.CountTrial(v1::OUTCOME_OK);
  metrics.CountTrial(v1::OUTCOME_OK);
  const std::string text = Scrape(metrics);
  EXPECT_THAT(text, HasSubstr("lcab_worker_trials_ended_total{outcome=\"ok\"} 2"));
  EXPECT_THAT(text, HasSubstr("lcab_worker_trials_ended_total{outcome=\"wrong_result\"} 0"));
  EXPECT_THAT(text, HasSubstr("lcab_worker_runner_deaths_total{fault=\"kernel\"} 0"));
}

TEST(WorkerMetrics, TheNumberOfSeriesDoesNotGrowWithWork) {
  Metrics metrics;
  const auto lines = [&] {
    const std::string text = Scrape(metrics);
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = lines();
  for (int n = 0; n < 10'000; ++n) {
    metrics.CountTrial(static_cast<v1::Outcome>(n % 20));  // beyond the last one, too
    metrics.CountRunnerDeath(static_cast<v1::Fault>(n % 7));
    metrics.SetRunnersStarted(n);
    metrics.SetAssignments(n);
  }
  EXPECT_EQ(lines(), before);
}

TEST(WorkerMetrics, DocumentationIsTheListAndTheListIsWhatIsServed) {
  std::ifstream file("docs/metrics.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string table = service::MetricTable(MetricList());
  EXPECT_THAT(page, HasSubstr(table)) << "docs/metrics.md should hold this:\n" << table;
  const Metrics metrics;
  std::set<std::string> served;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    served.insert(family.name);
  }
  std::set<std::string> listed;
  for (const service::MetricInfo& info : MetricList()) listed.emplace(info.name);
  EXPECT_EQ(served, listed);
}

TEST(WorkerMetrics, PromtoolFindsNothingToMend) {
  Metrics metrics;
  metrics.CountTrial(v1::OUTCOME_CRASHED);
  metrics.CountRunnerDeath(v1::FAULT_KERNEL);
  const std::optional<std::string> said = service::CheckWithPromtool(Scrape(metrics));
  if (!said.has_value()) GTEST_SKIP() << "promtool is not installed; make deps-test gets it";
  EXPECT_EQ(*said, "");
}

TEST(WorkerMetrics, TotalsNeverFall) {
  Metrics metrics;
  metrics.SetConnections(5);
  metrics.SetConnections(3);
  EXPECT_THAT(Scrape(metrics), HasSubstr("lcab_worker_connections_total 5"));
}

}  // namespace
}  // namespace lcab::worker
