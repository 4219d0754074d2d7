#include "report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "lcab/v1/jobs.pb.h"
#include "report/grouping.h"
#include "report/quantities.h"
#include "report/table.h"
#include "suites/enum_names.h"
#include "suites/labels.h"

namespace lcab::report {
namespace {

using enum FieldType;
using E = const ExplainedTrial&;

FieldValue Integer(std::optional<int64_t> value) {
  return value.has_value() ? FieldValue(*value) : FieldValue();
}

FieldValue Seconds(std::optional<absl::Duration> value) {
  return value.has_value() ? FieldValue(absl::ToDoubleSeconds(*value)) : FieldValue();
}

constexpr ExplainField kFields[] = {
    {"area", kInteger, "pairs", "allowed (query, key) pairs, summed over query heads",
     [](E e) { return FieldValue(e.estimate.area); }},
    {"flops", kInteger, "operations",
     "floating-point operations of the pass over the whole problem, exact",
     [](E e) { return FieldValue(e.estimate.flops); }},
    {"bytes_formula", kInteger, "bytes",
     "payload that all ranks send in one iteration, by the strategy's formula",
     [](E e) { return Integer(e.estimate.bytes_sent); }},
    {"peak_bytes", kInteger, "bytes", "device memory of the rank that needs most",
     [](E e) { return Integer(e.estimate.peak_bytes); }},
    {"iteration_seconds", kReal, "seconds",
     "one iteration at this machine's rate, from a short run of the kernel",
     [](E e) { return Seconds(e.estimate.iteration); }},
    {"whole_seconds", kReal, "seconds", "the trial with its checks, at most",
     [](E e) { return Seconds(e.estimate.whole); }},
    {"unsupported_reason", kText, "", "why the trial cannot run",
     [](E e) {
       const std::string& reason = e.spec.unsupported_reason();
       return reason.empty() ? FieldValue() : FieldValue(reason);
     }},
    {"cohort", kInteger, "", "trials of a cohort take turns, so that they can be compared",
     [](E e) { return FieldValue(e.cohort); }},
    {"index", kInteger, "", "place among the suite's trials, from 0",
     [](E e) { return FieldValue(e.index); }},
};

// The fields of result rows that tell what a trial is, before anything is known of its end.
std::span<const Field> IdentityFields() {
  const std::span<const Field> all = Fields();
  const auto at = [&](std::string_view name) {
    return std::find_if(all.begin(), all.end(), [&](const Field& f) { return f.name == name; });
  };
  return {at("kernel"), at("inputs") + 1};
}

std::vector<Cell> RowOf(const ExplainedTrial& trial) {
  const suites::Estimate& estimate = trial.estimate;
  const auto time = [](const std::optional<absl::Duration>& duration) {
    return duration.has_value() ? SecondsText(absl::ToDoubleSeconds(*duration)) : std::string();
  };
  return {
      suites::Name(trial.spec.pass()),
      suites::KernelLabel(trial.spec.kernel()),
      StrategyText(trial.spec),
      CountText(static_cast<double>(estimate.flops)),
      estimate.bytes_sent.value_or(0) > 0 ? BytesText(*estimate.bytes_sent) : "",
      estimate.peak_bytes.has_value() ? BytesText(*estimate.peak_bytes) : "",
      time(estimate.iteration),
      time(estimate.whole),
  };
}

std::string Summary(std::span<const ExplainedTrial> trials) {
  int64_t unsupported = 0;
  int64_t unknown = 0;
  int64_t cohorts = 0;
  absl::Duration whole;
  for (const ExplainedTrial& trial : trials) {
    cohorts = std::max(cohorts, trial.cohort + 1);
    if (!trial.spec.unsupported_reason().empty()) {
      ++unsupported;
    } else if (trial.estimate.whole.has_value()) {
      whole += *trial.estimate.whole;
    } else {
      ++unknown;
    }
  }
  std::string text = fmt::format("{} trial{} in {} cohort{}", trials.size(),
                                 trials.size() == 1 ? "" : "s", cohorts, cohorts == 1 ? "" : "s");
  if (unsupported > 0) text += fmt::format(", {} unsupported", unsupported);
  if (whole > absl::ZeroDuration()) {
    text += fmt::format("; at most about {} on this machine", WaitText(whole));
    if (unknown > 0) text += fmt::format(", besides {} of unknown time", unknown);
  }
  return text;
}

}  // namespace

std::span<const ExplainField> ExplainFields() { return kFields; }

Rows ExplainRows(std::span<const ExplainedTrial> trials) {
  Rows rows;
  for (const Field& field : IdentityFields()) rows.names.emplace_back(field.name);
  for (const ExplainField& field : kFields) rows.names.emplace_back(field.name);
  for (const ExplainedTrial& trial : trials) {
    v1::Trial as_trial;
    *as_trial.mutable_spec() = trial.spec;
    std::vector<FieldValue>& values = rows.values.emplace_back();
    for (const Field& field : IdentityFields()) values.push_back(Get(field, as_trial));
    for (const ExplainField& field : kFields) values.push_back(field.get(trial));
  }
  return rows;
}

std::string ExplainTable(std::span<const ExplainedTrial> trials, const Terminal& terminal) {
  Table table({{"pass"},
               {.title = "kernel", .may_shrink = true},
               {.title = "strategy", .may_shrink = true},
               {.title = "FLOPs", .align = Align::kRight},
               {.title = "sent", .align = Align::kRight},
               {.title = "memory", .align = Align::kRight},
               {.title = "iteration", .align = Align::kRight},
               {.title = "at most", .align = Align::kRight}});
  const auto spec = [&](size_t i) -> const v1::TrialSpec& { return trials[i].spec; };
  for (const std::vector<size_t>& group : GroupByProblem(trials.size(), spec)) {
    table.AddHeading(ProblemHeading(spec(group.front()), trials[group.front()].estimate.area));
    for (const size_t i : group) {
      table.AddRow(RowOf(trials[i]));
      if (const std::string& reason = spec(i).unsupported_reason(); !reason.empty()) {
        table.AddNote("unsupported: " + reason, Tone::kFaint);
      }
    }
  }
  return fmt::format("{}\n{}\n", table.Render(terminal), Summary(trials));
}

}  // namespace lcab::report
