#include "service/metric_info.h"

#include <algorithm>

#include "fmt/format.h"

namespace lcab::service {

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry,
                                                       const MetricInfo& info) {
  return prometheus::BuildCounter()
      .Name(std::string(info.name))
      .Help(std::string(info.help))
      .Register(registry);
}

prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry,
                                                   const MetricInfo& info) {
  return prometheus::BuildGauge()
      .Name(std::string(info.name))
      .Help(std::string(info.help))
      .Register(registry);
}

void Raise(prometheus::Counter& counter, double total) {
  counter.Increment(std::max(0.0, total - counter.Value()));
}

std::string MetricTable(std::span<const MetricInfo> metrics) {
  std::string table;
  for (const MetricInfo& info : metrics) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", info.name, info.type, info.labels, info.help);
  }
  return table;
}

}  // namespace lcab::service
