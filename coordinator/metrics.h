// What Prometheus is told. Labels are closed sets: kernel, mask, strategy, pass, outcome, fault,
// state, worker, device; never a job, a shape, a commit or a person. docs/metrics.md lists all of
// it.

#ifndef LCAB_COORDINATOR_METRICS_H_
#define LCAB_COORDINATOR_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/effects.h"
#include "lcab/v1/trial.pb.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/metric_info.h"

namespace lcab::coordinator {

using service::MetricInfo;

// In the order of the documentation.
std::span<const MetricInfo> MetricList();

// What a scrape asks the coordinator for.
struct MetricsSnapshot {
  struct WorkerState {
    std::string worker;
    bool connected = false;
    bool draining = false;
    std::map<std::string, int64_t> devices;       // by model
    std::map<std::string, int64_t> busy_devices;  // by model
  };
  std::vector<WorkerState> workers;
  std::map<std::string, int64_t> jobs;    // by state: queued, running, cancelling
  std::map<std::string, int64_t> trials;  // by state: pending, running
  int64_t wal_bytes = 0;
  int64_t database_bytes = 0;
  int64_t transactions = 0;
  int64_t changes = 0;
  int64_t failures = 0;
  absl::Duration writer_busy;
};

// Thread-safe.
class Metrics : public prometheus::Collectable {
 public:
  Metrics();

  // Called at each scrape; must be quick. Empty before it is set and after it is cleared.
  void SetSnapshot(std::function<MetricsSnapshot()> snapshot);

  void Count(const TrialEnded& ended);
  void Count(const AttemptEnded& ended);
  void ObserveSchedule(absl::Duration duration);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  template <typename Metric>
  using Family = prometheus::Family<Metric>;

  void Refresh(const MetricsSnapshot& snapshot) const;
  void RefreshWorkers(const MetricsSnapshot& snapshot) const;

  mutable std::mutex mutex_;
  std::function<MetricsSnapshot()> snapshot_;
  prometheus::Registry registry_;
  Family<prometheus::Counter>& trials_ended_;
  Family<prometheus::Gauge>& last_rate_;
  Family<prometheus::Counter>& attempts_ended_;
  Family<prometheus::Gauge>& jobs_;
  Family<prometheus::Gauge>& trials_;
  Family<prometheus::Gauge>& worker_up_;
  Family<prometheus::Gauge>& worker_draining_;
  Family<prometheus::Gauge>& devices_;
  Family<prometheus::Gauge>& busy_devices_;
  prometheus::Histogram& schedule_seconds_;
  prometheus::Gauge& wal_bytes_;
  prometheus::Gauge& database_bytes_;
  prometheus::Counter& transactions_;
  prometheus::Counter& changes_;
  prometheus::Counter& failures_;
  prometheus::Counter& writer_busy_;
  // Gauges of workers, by family and labels: those of a worker that left are removed.
  struct WorkerGauge {
    Family<prometheus::Gauge>* family;
    prometheus::Gauge* gauge;
    bool seen;
  };
  mutable std::map<std::string, WorkerGauge> worker_gauges_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_METRICS_H_
