#include "worker/metrics.h"

#include <string>

#include "lcab_version.h"
#include "suites/enum_names.h"

namespace lcab::worker {
namespace {

using service::CounterFamily;
using service::GaugeFamily;
using service::MetricInfo;

constexpr MetricInfo kTrials = {"lcab_worker_trials_ended_total", "counter", "outcome",
                                "Attempts at trials that ended on this worker, by outcome."};
constexpr MetricInfo kDeaths = {"lcab_worker_runner_deaths_total", "counter", "fault",
                                "Runner processes that died at work, by fault."};
constexpr MetricInfo kConnections = {"lcab_worker_connections_total", "counter", "",
                                     "Connections to the coordinator that were welcomed."};
constexpr MetricInfo kStarted = {"lcab_worker_runners_started_total", "counter", "",
                                 "Runner processes started."};
constexpr MetricInfo kConnected = {"lcab_worker_connected", "gauge", "",
                                   "1 while connected to the coordinator."};
constexpr MetricInfo kStopping = {"lcab_worker_stopping", "gauge", "",
                                  "1 from SIGTERM until what runs is done."};
constexpr MetricInfo kHeld = {
    "lcab_worker_devices_held", "gauge", "",
    "Devices that assignments hold, those that are being ended among them."};
constexpr MetricInfo kAssignments = {"lcab_worker_assignments", "gauge", "",
                                     "Assignments that run here."};
constexpr MetricInfo kUnacknowledged = {
    "lcab_worker_unacknowledged_events", "gauge", "",
    "Events that the coordinator has not stored yet; they are sent again until it has."};
constexpr MetricInfo kIdle = {"lcab_worker_idle_runners", "gauge", "",
                              "Runner processes that are kept warm."};
constexpr MetricInfo kBuild = {"lcab_worker_build_info", "gauge", "version",
                               "1; the label is the version of the worker."};

constexpr MetricInfo kList[] = {kTrials,         kDeaths,   kConnections, kStarted,
                                kConnected,      kStopping, kHeld,        kAssignments,
                                kUnacknowledged, kIdle,     kBuild};

// One counter a value of the enumeration, by number; the unspecified one has none.
template <typename Enum>
std::vector<prometheus::Counter*> AddByValue(prometheus::Registry& registry,
                                             const MetricInfo& info) {
  auto& family = CounterFamily(registry, info);
  const auto* type = google::protobuf::GetEnumDescriptor<Enum>();
  std::vector<prometheus::Counter*> counters;
  for (int n = 0; n < type->value_count(); ++n) {
    const int number = type->value(n)->number();
    if (number >= static_cast<int>(counters.size())) counters.resize(number + 1, nullptr);
    if (number == 0) continue;
    counters[number] = &family.Add({{std::string(info.labels), suites::EnumName(*type, number)}});
  }
  return counters;
}

void Increment(const std::vector<prometheus::Counter*>& counters, int value) {
  if (value > 0 && value < static_cast<int>(counters.size()) && counters[value] != nullptr) {
    counters[value]->Increment();
  }
}

}  // namespace

std::span<const MetricInfo> MetricList() { return kList; }

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      trials_(AddByValue<v1::Outcome>(*registry_, kTrials)),
      deaths_(AddByValue<v1::Fault>(*registry_, kDeaths)),
      connections_(CounterFamily(*registry_, kConnections).Add({})),
      runners_started_(CounterFamily(*registry_, kStarted).Add({})),
      connected_(GaugeFamily(*registry_, kConnected).Add({})),
      stopping_(GaugeFamily(*registry_, kStopping).Add({})),
      devices_held_(GaugeFamily(*registry_, kHeld).Add({})),
      assignments_(GaugeFamily(*registry_, kAssignments).Add({})),
      unacknowledged_(GaugeFamily(*registry_, kUnacknowledged).Add({})),
      idle_runners_(GaugeFamily(*registry_, kIdle).Add({})) {
  GaugeFamily(*registry_, kBuild).Add({{"version", std::string(GetBuildInfo().version)}}).Set(1);
}

void Metrics::CountTrial(v1::Outcome outcome) { Increment(trials_, outcome); }
void Metrics::CountRunnerDeath(v1::Fault fault) { Increment(deaths_, fault); }

void Metrics::SetConnections(int64_t total) {
  service::Raise(connections_, static_cast<double>(total));
}

void Metrics::SetRunnersStarted(int64_t total) {
  service::Raise(runners_started_, static_cast<double>(total));
}

}  // namespace lcab::worker
