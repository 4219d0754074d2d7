#include "worker/metrics.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

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
  EXPECT_THAT(text, HasSubstr("lcab_worker_trials_total{outcome=\"ok\"} 2"));
  EXPECT_THAT(text, HasSubstr("lcab_worker_trials_total{outcome=\"wrong_result\"} 0"));
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

TEST(WorkerMetrics, TotalsNeverFall) {
  Metrics metrics;
  metrics.SetConnections(5);
  metrics.SetConnections(3);
  EXPECT_THAT(Scrape(metrics), HasSubstr("lcab_worker_connections_total 5"));
}

}  // namespace
}  // namespace lcab::worker
