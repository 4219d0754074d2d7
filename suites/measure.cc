#include "suites/measure.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "attention/inputs.h"
#include "proto/proto_time.h"
#include "suites/enum_names.h"
#include "suites/fields.h"
#include "suites/format.h"

namespace lcab::suites {
namespace {

// Raw samples are kept and travel: a few million are still only tens of megabytes.
constexpr int64_t kMostSamples = 4'000'000;
constexpr int64_t kMostWarmup = 100'000;
constexpr int64_t kMostBytes = int64_t{1} << 50;

std::vector<std::string> InputNames() {
  constexpr std::array kAll = {Distribution::kNormal, Distribution::kHeavyTailed,
                               Distribution::kLargeRows, Distribution::kCorrelated};
  std::vector<std::string> names;
  for (const Distribution distribution : kAll) names.emplace_back(Name(distribution));
  return names;
}

template <typename Enum>
Enum ReadEnum(Fields& fields, const char* key, Enum value) {
  std::string name = Name(value);
  fields.Read(key, Names<Enum>(), &name);
  return ParseName<Enum>(name).value_or(value);
}

}  // namespace

v1::Measure DefaultMeasure() {
  v1::Measure measure;
  measure.set_mode(v1::MEASURE_MODE_MEASURE);
  measure.set_warmup(3);
  measure.set_min_samples(10);
  measure.set_max_samples(10'000);
  *measure.mutable_max_time() = ToProto(absl::Seconds(5));
  measure.set_confidence(0.95);
  measure.set_precision(0.02);
  measure.set_cache(v1::CACHE_COLD);
  measure.set_inputs(std::string(Name(Distribution::kNormal)));
  *measure.mutable_timeout() = ToProto(absl::Minutes(10));
  return measure;
}

v1::Measure ReadMeasure(const Tree& tree, const v1::Measure& defaults, Diagnostics& diagnostics) {
  v1::Measure measure = defaults;
  Fields fields(tree, kMeasureMap, diagnostics);
  if (tree.kind != Tree::Kind::kMap) return measure;
  measure.set_mode(ReadEnum(fields, "mode", measure.mode()));
  measure.set_cache(ReadEnum(fields, "cache", measure.cache()));
  fields.Read("inputs", InputNames(), measure.mutable_inputs());

  const auto integer = [&](const char* key, int64_t minimum, int64_t maximum, int64_t value) {
    fields.Read(key, minimum, maximum, &value);
    return value;
  };
  measure.set_warmup(integer("warmup", 0, kMostWarmup, measure.warmup()));
  measure.set_min_samples(integer("min_samples", 1, kMostSamples, measure.min_samples()));
  measure.set_max_samples(integer("max_samples", 1, kMostSamples, measure.max_samples()));
  measure.set_memory_limit_bytes(
      integer("memory_limit", 0, kMostBytes, measure.memory_limit_bytes()));

  const auto real = [&](const char* key, double minimum, double maximum, double value) {
    fields.Read(key, minimum, maximum, &value);
    return value;
  };
  measure.set_confidence(real("confidence", 0.5, 0.999, measure.confidence()));
  measure.set_precision(real("precision", 0.0001, 1, measure.precision()));

  absl::Duration max_time = FromProto(measure.max_time());
  absl::Duration timeout = FromProto(measure.timeout());
  fields.Read("max_time", absl::Milliseconds(1), absl::Hours(24), &max_time);
  fields.Read("timeout", absl::Seconds(1), absl::Hours(24 * 7), &timeout);
  *measure.mutable_max_time() = ToProto(max_time);
  *measure.mutable_timeout() = ToProto(timeout);

  if (measure.max_samples() < measure.min_samples()) {
    diagnostics.Add(
        fields.Where(tree.Find("max_samples") != nullptr ? "max_samples" : "min_samples"),
        fmt::format("max_samples is {}, below min_samples, which is {}", measure.max_samples(),
                    measure.min_samples()));
  }
  if (timeout < max_time) {
    diagnostics.Add(fields.Where(tree.Find("timeout") != nullptr ? "timeout" : "max_time"),
                    fmt::format("timeout is {}, shorter than max_time, which is {}: a trial could "
                                "not even take its samples",
                                absl::FormatDuration(timeout), absl::FormatDuration(max_time)));
  }
  return measure;
}

}  // namespace lcab::suites
