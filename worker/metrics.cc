#include "worker/metrics.h"

#include <string>
#include <utility>

#include "lcab_version.h"
#include "suites/enum_names.h"

namespace lcab::worker {
namespace {

prometheus::Counter& AddCounter(prometheus::Registry& registry, const char* name,
                                const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Gauge& AddGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

// One counter a value of the enumeration, by number; the unspecified one has none.
template <typename Enum>
std::vector<prometheus::Counter*> AddByValue(prometheus::Registry& registry, const char* name,
                                             const char* help, const char* label) {
  auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  const auto* type = google::protobuf::GetEnumDescriptor<Enum>();
  std::vector<prometheus::Counter*> counters;
  for (int n = 0; n < type->value_count(); ++n) {
    const int number = type->value(n)->number();
    if (number >= static_cast<int>(counters.size())) counters.resize(number + 1, nullptr);
    if (number != 0) counters[number] = &family.Add({{label, suites::EnumName(*type, number)}});
  }
  return counters;
}

void Increment(const std::vector<prometheus::Counter*>& counters, int value) {
  if (value > 0 && value < static_cast<int>(counters.size()) && counters[value] != nullptr) {
    counters[value]->Increment();
  }
}

void RaiseTo(prometheus::Counter& counter, int64_t total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) counter.Increment(more);
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      trials_(AddByValue<v1::Outcome>(*registry_, "lcab_worker_trials_total",
                                      "Attempts at trials that ended here, by outcome.",
                                      "outcome")),
      deaths_(AddByValue<v1::Fault>(*registry_, "lcab_worker_runner_deaths_total",
                                    "Runner processes that died at work, by fault.", "fault")),
      connections_(AddCounter(*registry_, "lcab_worker_connections_total",
                              "Connections to the coordinator that were welcomed.")),
      runners_started_(
          AddCounter(*registry_, "lcab_worker_runners_started_total", "Runner processes started.")),
      connected_(
          AddGauge(*registry_, "lcab_worker_connected", "1 while connected to the coordinator.")),
      draining_(AddGauge(*registry_, "lcab_worker_draining", "1 while nothing new is taken.")),
      devices_(AddGauge(*registry_, "lcab_worker_devices", "Devices of this worker.")),
      busy_devices_(AddGauge(*registry_, "lcab_worker_busy_devices",
                             "Devices of this worker that an assignment uses.")),
      assignments_(AddGauge(*registry_, "lcab_worker_assignments", "Assignments that run here.")),
      unacknowledged_(AddGauge(*registry_, "lcab_worker_unacknowledged_events",
                               "Events that the coordinator has not acknowledged.")),
      idle_runners_(AddGauge(*registry_, "lcab_worker_idle_runners",
                             "Runner processes that are kept warm.")) {
  const BuildInfo build = GetBuildInfo();
  prometheus::BuildGauge()
      .Name("lcab_build_info")
      .Help("Always 1; the labels say what this program was built from.")
      .Register(*registry_)
      .Add({{"version", std::string(build.version)}, {"commit", std::string(build.commit)}})
      .Set(1);
}

void Metrics::CountTrial(v1::Outcome outcome) { Increment(trials_, outcome); }
void Metrics::CountRunnerDeath(v1::Fault fault) { Increment(deaths_, fault); }
void Metrics::SetConnections(int64_t total) { RaiseTo(connections_, total); }
void Metrics::SetRunnersStarted(int64_t total) { RaiseTo(runners_started_, total); }

void Metrics::SetDevices(int total, int busy) {
  devices_.Set(total);
  busy_devices_.Set(busy);
}

}  // namespace lcab::worker
