// What a worker tells Prometheus, listed in docs/metrics.md. No label grows with jobs: outcomes and
// faults are closed sets.

#ifndef LCAB_WORKER_METRICS_H_
#define LCAB_WORKER_METRICS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lcab/v1/trial.pb.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "service/metric_info.h"

namespace lcab::worker {

// In the order of the documentation.
std::span<const service::MetricInfo> MetricList();

// Thread-safe.
class Metrics {
 public:
  Metrics();

  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

  void CountTrial(v1::Outcome outcome);
  void CountRunnerDeath(v1::Fault fault);
  // Totals so far.
  void SetConnections(int64_t total);
  void SetRunnersStarted(int64_t total);
  void SetConnected(bool connected) { connected_.Set(connected ? 1 : 0); }
  void SetStopping(bool stopping) { stopping_.Set(stopping ? 1 : 0); }
  void SetDevicesHeld(int held) { devices_held_.Set(held); }
  void SetAssignments(int running) { assignments_.Set(running); }
  void SetUnacknowledgedEvents(int64_t events) { unacknowledged_.Set(static_cast<double>(events)); }
  void SetIdleRunners(int idle) { idle_runners_.Set(idle); }

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  std::vector<prometheus::Counter*> trials_;  // by outcome
  std::vector<prometheus::Counter*> deaths_;  // by fault
  prometheus::Counter& connections_;
  prometheus::Counter& runners_started_;
  prometheus::Gauge& connected_;
  prometheus::Gauge& stopping_;
  prometheus::Gauge& devices_held_;
  prometheus::Gauge& assignments_;
  prometheus::Gauge& unacknowledged_;
  prometheus::Gauge& idle_runners_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_METRICS_H_
