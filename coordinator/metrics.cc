#include "coordinator/metrics.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "lcab_version.h"
#include "suites/enum_names.h"

namespace lcab::coordinator {
namespace {

using service::CounterFamily;
using service::GaugeFamily;
using service::Raise;

constexpr MetricInfo kTrialsEnded = {"lcab_trials_ended_total", "counter",
                                     "kernel, mask, strategy, pass, outcome",
                                     "Trials that ended, and how."};
constexpr MetricInfo kLastRate = {
    "lcab_trial_flops_per_second", "gauge", "kernel, mask, strategy, pass",
    "FLOPs of all ranks over the median time, of the last trial that was ok."};
constexpr MetricInfo kAttemptsEnded = {
    "lcab_attempts_ended_total", "counter", "outcome, fault",
    "Attempts at trials that ended, how, and through whose fault."};
constexpr MetricInfo kJobs = {"lcab_jobs", "gauge", "state", "Jobs that have not ended."};
constexpr MetricInfo kTrials = {"lcab_trials", "gauge", "state", "Trials that have not ended."};
constexpr MetricInfo kWorkerUp = {
    "lcab_worker_up", "gauge", "worker",
    "1 while the worker is connected, 0 for a quarter of an hour after it left, then gone."};
constexpr MetricInfo kWorkerDraining = {"lcab_worker_draining", "gauge", "worker",
                                        "1 while a connected worker is given no new work."};
constexpr MetricInfo kDevices = {"lcab_worker_devices", "gauge", "worker, device",
                                 "Devices of connected workers, by model."};
constexpr MetricInfo kBusyDevices = {
    "lcab_worker_busy_devices", "gauge", "worker, device",
    "Devices of connected workers that run an assignment, by model."};
constexpr MetricInfo kScheduleSeconds = {"lcab_schedule_seconds", "histogram", "",
                                         "Time of one round of scheduling decisions."};
constexpr MetricInfo kWalBytes = {"lcab_store_wal_bytes", "gauge", "",
                                  "Size of the store's write-ahead log."};
constexpr MetricInfo kDatabaseBytes = {"lcab_store_bytes", "gauge", "",
                                       "Size of the store's file."};
constexpr MetricInfo kTransactions = {"lcab_store_transactions_total", "counter", "",
                                      "Transactions of the store's writer."};
constexpr MetricInfo kChanges = {"lcab_store_changes_total", "counter", "",
                                 "Changes that were committed; several may share a transaction."};
constexpr MetricInfo kFailures = {"lcab_store_failures_total", "counter", "",
                                  "Transactions that could not be committed."};
constexpr MetricInfo kWriterBusy = {"lcab_store_busy_seconds_total", "counter", "",
                                    "Time that the store's writer spent in transactions."};
constexpr MetricInfo kBuild = {"lcab_coordinator_build_info", "gauge", "version",
                               "1; the label is the version of the coordinator."};

constexpr MetricInfo kList[] = {kTrialsEnded,  kLastRate,        kAttemptsEnded,  kJobs,
                                kTrials,       kWorkerUp,        kWorkerDraining, kDevices,
                                kBusyDevices,  kScheduleSeconds, kWalBytes,       kDatabaseBytes,
                                kTransactions, kChanges,         kFailures,       kWriterBusy,
                                kBuild};

}  // namespace

std::span<const MetricInfo> MetricList() { return kList; }

Metrics::Metrics()
    : trials_ended_(CounterFamily(registry_, kTrialsEnded)),
      last_rate_(GaugeFamily(registry_, kLastRate)),
      attempts_ended_(CounterFamily(registry_, kAttemptsEnded)),
      jobs_(GaugeFamily(registry_, kJobs)),
      trials_(GaugeFamily(registry_, kTrials)),
      worker_up_(GaugeFamily(registry_, kWorkerUp)),
      worker_draining_(GaugeFamily(registry_, kWorkerDraining)),
      devices_(GaugeFamily(registry_, kDevices)),
      busy_devices_(GaugeFamily(registry_, kBusyDevices)),
      schedule_seconds_(
          prometheus::BuildHistogram()
              .Name(std::string(kScheduleSeconds.name))
              .Help(std::string(kScheduleSeconds.help))
              .Register(registry_)
              .Add({}, prometheus::Histogram::BucketBoundaries{0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                               1, 3})),
      wal_bytes_(GaugeFamily(registry_, kWalBytes).Add({})),
      database_bytes_(GaugeFamily(registry_, kDatabaseBytes).Add({})),
      transactions_(CounterFamily(registry_, kTransactions).Add({})),
      changes_(CounterFamily(registry_, kChanges).Add({})),
      failures_(CounterFamily(registry_, kFailures).Add({})),
      writer_busy_(CounterFamily(registry_, kWriterBusy).Add({})) {
  GaugeFamily(registry_, kBuild).Add({{"version", std::string(GetBuildInfo().version)}}).Set(1);
}

void Metrics::SetSnapshot(std::function<MetricsSnapshot()> snapshot) {
  const std::lock_guard lock(mutex_);
  snapshot_ = std::move(snapshot);
}

void Metrics::Count(const TrialEnded& ended) {
  prometheus::Labels labels = {{"kernel", ended.kernel},
                               {"mask", ended.mask},
                               {"strategy", ended.strategy},
                               {"pass", suites::Name(ended.pass)}};
  const v1::TrialResult& result = ended.result;
  const double seconds = result.statistics().median_seconds();
  // A rate needs a time: a failure has none.
  if (result.outcome() == v1::OUTCOME_OK && seconds > 0) {
    last_rate_.Add(labels).Set(static_cast<double>(result.flops()) / seconds);
  }
  labels["outcome"] = suites::Name(result.outcome());
  trials_ended_.Add(labels).Increment();
}

void Metrics::Count(const AttemptEnded& ended) {
  const std::string fault = suites::Name(ended.fault);
  attempts_ended_
      .Add({{"outcome", suites::Name(ended.outcome)}, {"fault", fault.empty() ? "none" : fault}})
      .Increment();
}

void Metrics::ObserveSchedule(absl::Duration duration) {
  schedule_seconds_.Observe(absl::ToDoubleSeconds(duration));
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  {
    // Under the lock: whoever clears the snapshot knows that none is being taken any more.
    const std::lock_guard lock(mutex_);
    if (snapshot_) Refresh(snapshot_());
  }
  return registry_.Collect();
}

void Metrics::Refresh(const MetricsSnapshot& snapshot) const {
  for (const auto& [state, count] : snapshot.jobs) {
    jobs_.Add({{"state", state}}).Set(static_cast<double>(count));
  }
  for (const auto& [state, count] : snapshot.trials) {
    trials_.Add({{"state", state}}).Set(static_cast<double>(count));
  }
  wal_bytes_.Set(static_cast<double>(snapshot.wal_bytes));
  database_bytes_.Set(static_cast<double>(snapshot.database_bytes));
  Raise(transactions_, static_cast<double>(snapshot.transactions));
  Raise(changes_, static_cast<double>(snapshot.changes));
  Raise(failures_, static_cast<double>(snapshot.failures));
  Raise(writer_busy_, absl::ToDoubleSeconds(snapshot.writer_busy));
  RefreshWorkers(snapshot);
}

void Metrics::RefreshWorkers(const MetricsSnapshot& snapshot) const {
  for (auto& [key, entry] : worker_gauges_) entry.seen = false;
  const auto set = [&](Family<prometheus::Gauge>& family, const prometheus::Labels& labels,
                       double value) {
    std::string key = family.GetName();
    for (const auto& [name, label] : labels) key += fmt::format("\n{}\n{}", name, label);
    auto [entry, added] = worker_gauges_.try_emplace(key);
    if (added) entry->second = {&family, &family.Add(labels), true};
    entry->second.seen = true;
    entry->second.gauge->Set(value);
  };
  for (const MetricsSnapshot::WorkerState& worker : snapshot.workers) {
    set(worker_up_, {{"worker", worker.worker}}, worker.connected ? 1 : 0);
    if (!worker.connected) continue;
    set(worker_draining_, {{"worker", worker.worker}}, worker.draining ? 1 : 0);
    for (const auto& [model, count] : worker.devices) {
      const prometheus::Labels labels = {{"worker", worker.worker}, {"device", model}};
      set(devices_, labels, static_cast<double>(count));
      const auto busy = worker.busy_devices.find(model);
      set(busy_devices_, labels,
          busy == worker.busy_devices.end() ? 0.0 : static_cast<double>(busy->second));
    }
  }
  std::erase_if(worker_gauges_, [](const auto& item) {
    const WorkerGauge& entry = item.second;
    if (!entry.seen) entry.family->Remove(entry.gauge);
    return !entry.seen;
  });
}

}  // namespace lcab::coordinator
