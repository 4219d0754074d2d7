#include "report/results_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lcab/v1/trial.pb.h"
#include "report/grouping.h"
#include "report/quantities.h"
#include "report/rates.h"
#include "report/table.h"
#include "suites/enum_names.h"
#include "suites/labels.h"

namespace lcab::report {
namespace {

using suites::Name;

// From here on rates are in TFLOP/s: three digits of GFLOP/s no longer serve.
constexpr double kTeraFrom = 10;

Tone ToneOf(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_OK:
      return Tone::kGood;
    case v1::OUTCOME_UNSUPPORTED:
    case v1::OUTCOME_CANCELLED:
    case v1::OUTCOME_UNSPECIFIED:
      return Tone::kFaint;
    default:
      return Tone::kBad;
  }
}

// "12" of "jobs/12/trials/3".
std::string JobOf(const v1::Trial& trial) {
  std::string_view name = trial.name();
  name = name.substr(0, name.find("/trials/"));
  return std::string(name.substr(name.find('/') + 1));
}

bool IsMeasured(const v1::Trial& trial) {
  return trial.state() == v1::TRIAL_STATE_DONE && trial.result().statistics().samples() > 0;
}

// The interval of the median, with the confidence that few samples reached where that is less than
// was asked; nothing for one sample, which has no spread.
std::string IntervalText(const v1::Trial& trial) {
  const v1::Statistics& statistics = trial.result().statistics();
  if (statistics.samples() < 2) return {};
  const bool reached = statistics.confidence() >= trial.spec().measure().confidence() - 1e-9;
  return fmt::format("{}{} .. {}",
                     reached ? "" : fmt::format("({:.0f}%) ", statistics.confidence() * 100),
                     SecondsText(statistics.low_seconds()), SecondsText(statistics.high_seconds()));
}

// "12", or "12 x 64" where 64 iterations are timed together as one sample.
std::string SamplesText(const v1::Statistics& statistics) {
  std::string text = fmt::format("{}", statistics.samples());
  if (statistics.iterations_per_sample() > 1) {
    text += fmt::format(" x {}", statistics.iterations_per_sample());
  }
  return text;
}

// What a reader of an `ok` row must know besides its numbers; mostly nothing.
std::string Caveats(const v1::TrialResult& result) {
  std::string text;
  if (result.stop_reason() == v1::STOP_REASON_ALL_THROTTLED) {
    text =
        fmt::format("all {} samples were discarded as throttled: the device never ran at its clock",
                    result.statistics().discarded());
  } else if (result.statistics().discarded() > 0) {
    text = fmt::format("{} samples were discarded as throttled", result.statistics().discarded());
  }
  if (result.ran_in_turn()) {
    text += fmt::format(
        "{}ran alone: the cohort did not fit in memory together, so its trials did "
        "not take turns",
        text.empty() ? "" : "; ");
  }
  return text;
}

// The cells of a trial; `with_job` puts its job first.
std::vector<Cell> RowOf(const v1::Trial& trial, bool tera, bool with_job) {
  const v1::TrialResult& result = trial.result();
  const v1::Statistics& statistics = result.statistics();
  const std::optional<double> rate = Tflops(trial);
  const bool measured = IsMeasured(trial);
  const bool done = trial.state() == v1::TRIAL_STATE_DONE;
  const std::string outcome = done ? Name(result.outcome()) : Name(trial.state());
  std::vector<Cell> cells = {
      Name(trial.spec().pass()),
      suites::KernelLabel(trial.spec().kernel()),
      StrategyText(trial.spec()),
      rate.has_value() ? ThreeDigits(*rate * (tera ? 1 : 1000)) : "",
      measured ? SecondsText(statistics.median_seconds()) : "",
      measured ? IntervalText(trial) : "",
      measured ? SamplesText(statistics) : "",
      done && result.has_verification() ? fmt::format("{:.1e}", result.verification().max_error())
                                        : "",
      Cell(outcome, done ? ToneOf(result.outcome()) : Tone::kFaint),
  };
  if (with_job) cells.insert(cells.begin(), Cell(JobOf(trial)));
  return cells;
}

}  // namespace

std::string OutcomeCounts(std::span<const v1::Trial> trials) {
  std::map<int, int> outcomes;
  int open = 0;
  for (const v1::Trial& trial : trials) {
    if (trial.state() == v1::TRIAL_STATE_DONE) {
      ++outcomes[trial.result().outcome()];
    } else {
      ++open;
    }
  }
  std::vector<std::string> counts;
  for (const auto& [outcome, count] : outcomes) {
    const std::string name = Name(static_cast<v1::Outcome>(outcome));
    counts.push_back(fmt::format("{} {}", count, name.empty() ? "without an outcome" : name));
  }
  if (open > 0) counts.push_back(fmt::format("{} not done", open));
  return fmt::format("{} trial{}{}{}", trials.size(), trials.size() == 1 ? "" : "s",
                     counts.empty() ? "" : ": ", fmt::join(counts, ", "));
}

std::string ResultsTable(std::span<const v1::Trial> trials, const Terminal& terminal) {
  bool tera = false;
  std::set<std::string> jobs;
  std::set<double> confidences;
  for (const v1::Trial& trial : trials) {
    jobs.insert(JobOf(trial));
    tera = tera || Tflops(trial).value_or(0) >= kTeraFrom;
    if (IsMeasured(trial)) confidences.insert(trial.spec().measure().confidence());
  }
  const std::string interval = confidences.size() == 1
                                   ? fmt::format("{:g}% interval", *confidences.begin() * 100)
                                   : std::string("interval");
  std::vector<Column> columns = {{"pass"},
                                 {.title = "kernel", .may_shrink = true},
                                 {.title = "strategy", .may_shrink = true},
                                 {.title = tera ? "TFLOP/s" : "GFLOP/s", .align = Align::kRight},
                                 {.title = "median", .align = Align::kRight},
                                 {.title = interval, .align = Align::kRight},
                                 {.title = "samples", .align = Align::kRight},
                                 {.title = "error", .align = Align::kRight},
                                 {"outcome"}};
  const bool with_job = jobs.size() > 1;
  if (with_job) columns.insert(columns.begin(), {"job"});
  Table table(std::move(columns));
  const auto spec = [&](size_t i) -> const v1::TrialSpec& { return trials[i].spec(); };
  for (const std::vector<size_t>& group : GroupByProblem(trials.size(), spec)) {
    int64_t area = 0;
    for (const size_t i : group) area = std::max(area, trials[i].result().area());
    table.AddHeading(ProblemHeading(spec(group.front()), area));
    for (const size_t i : group) {
      table.AddRow(RowOf(trials[i], tera, with_job));
      const v1::TrialResult& result = trials[i].result();
      if (!result.reason().empty()) table.AddNote(result.reason(), ToneOf(result.outcome()));
      if (const std::string caveats = Caveats(result); !caveats.empty()) {
        table.AddNote(caveats, Tone::kFaint);
      }
    }
  }
  return fmt::format("{}\n{}\n", table.Render(terminal), OutcomeCounts(trials));
}

}  // namespace lcab::report
