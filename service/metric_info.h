// A metric as documentation and code both know it: declared once, registered from that, and listed
// in docs/metrics.md, which tests hold against the declarations.

#ifndef LCAB_SERVICE_METRIC_INFO_H_
#define LCAB_SERVICE_METRIC_INFO_H_

#include <span>
#include <string>
#include <string_view>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace lcab::service {

struct MetricInfo {
  std::string_view name;
  std::string_view type;    // "counter", "gauge", "histogram"
  std::string_view labels;  // separated by ", "
  std::string_view help;
};

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry,
                                                       const MetricInfo& info);
prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry,
                                                   const MetricInfo& info);
// Raises a counter to a total that is counted elsewhere. Never lowers it.
void Raise(prometheus::Counter& counter, double total);

// The rows of the table in docs/metrics.md.
std::string MetricTable(std::span<const MetricInfo> metrics);

}  // namespace lcab::service

#endif  // LCAB_SERVICE_METRIC_INFO_H_
