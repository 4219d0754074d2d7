#include "report/results_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lcab/v1/trial.pb.h"
#include "report/quantities.h"
#include "report/rates.h"
#include "report/table.h"
#include "suites/enum_names.h"
#include "suites/labels.h"
#include "suites/trial_key.h"

namespace lcab::report {
namespace {

using suites::Name;

// From here on rates are in TFLOP/s: three digits of GFLOP/s no longer serve.
constexpr double kTeraFrom = 10;

std::string Heading(const v1::TrialSpec& trial, int64_t area) {
  const v1::Problem& problem = trial.problem();
  std::string text = fmt::format("{}  {} tokens", suites::MaskLabel(problem),
                                 suites::SizeText(problem.q_tokens()));
  if (problem.k_tokens() != problem.q_tokens()) {
    text += fmt::format(" x {} keys", suites::SizeText(problem.k_tokens()));
  }
  text += fmt::format("  {}:{} heads x {}", problem.q_heads(), problem.kv_heads(),
                      problem.qk_head_dim());
  if (problem.v_head_dim() != problem.qk_head_dim()) {
    text += fmt::format("/{}", problem.v_head_dim());
  }
  text += fmt::format("  {}", Name(problem.dtype()));
  if (trial.ranks() > 1) text += fmt::format("  {} ranks", trial.ranks());
  if (trial.ranks_per_device() > 1) {
    text += fmt::format(" (virtual: {} a device)", trial.ranks_per_device());
  }
  if (area > 0) text += fmt::format("  area {}", Grouped(area));
  return text;
}

// What the rows of one group have in common.
std::string GroupKey(const v1::TrialSpec& trial) {
  return fmt::format("{} {}/{}", suites::ProblemKey(trial.problem()), trial.ranks(),
                     trial.ranks_per_device());
}

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

// What to show beside the strategy or kernel where it is not the usual.
std::string Conditions(const v1::TrialSpec& trial) {
  std::string text;
  if (trial.ranks() > 1 && !trial.overlap()) text += " no overlap";
  if (trial.measure().cache() == v1::CACHE_WARM) text += " warm";
  if (trial.measure().inputs() != "normal" && !trial.measure().inputs().empty()) {
    text += " " + trial.measure().inputs();
  }
  return text;
}

bool IsMeasured(const v1::Trial& trial) {
  return trial.state() == v1::TRIAL_STATE_DONE && trial.result().statistics().samples() > 0;
}

std::vector<Cell> RowOf(const v1::Trial& trial, bool tera) {
  const v1::TrialResult& result = trial.result();
  const v1::Statistics& statistics = result.statistics();
  const std::optional<double> rate = Tflops(trial);
  const bool measured = IsMeasured(trial);
  const bool done = trial.state() == v1::TRIAL_STATE_DONE;
  const std::string outcome = done ? Name(result.outcome()) : Name(trial.state());
  return {
      Name(trial.spec().pass()),
      suites::KernelLabel(trial.spec().kernel()),
      suites::StrategyLabel(trial.spec().strategy()) + Conditions(trial.spec()),
      rate.has_value() ? ThreeDigits(*rate * (tera ? 1 : 1000)) : "",
      measured ? SecondsText(statistics.median_seconds()) : "",
      measured ? fmt::format("{} .. {}", SecondsText(statistics.low_seconds()),
                             SecondsText(statistics.high_seconds()))
               : "",
      measured ? fmt::format("{}", statistics.samples()) : "",
      done && result.has_verification() ? fmt::format("{:.1e}", result.verification().max_error())
                                        : "",
      Cell(outcome, done ? ToneOf(result.outcome()) : Tone::kFaint),
  };
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
  std::set<double> confidences;
  // Groups in the order of their first trials; within a group, by pass and then as they come.
  std::vector<std::vector<const v1::Trial*>> groups;
  std::map<std::string, size_t> places;
  for (const v1::Trial& trial : trials) {
    tera = tera || Tflops(trial).value_or(0) >= kTeraFrom;
    if (IsMeasured(trial)) confidences.insert(trial.spec().measure().confidence());
    const auto [place, is_new] = places.emplace(GroupKey(trial.spec()), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&trial);
  }
  const std::string interval = confidences.size() == 1
                                   ? fmt::format("{:g}% interval", *confidences.begin() * 100)
                                   : std::string("interval");
  Table table({{"pass"},
               {.title = "kernel", .may_shrink = true},
               {.title = "strategy", .may_shrink = true},
               {.title = tera ? "TFLOP/s" : "GFLOP/s", .align = Align::kRight},
               {.title = "median", .align = Align::kRight},
               {.title = interval, .align = Align::kRight},
               {.title = "samples", .align = Align::kRight},
               {.title = "error", .align = Align::kRight},
               {"outcome"}});
  for (std::vector<const v1::Trial*>& group : groups) {
    std::stable_sort(group.begin(), group.end(), [](const v1::Trial* a, const v1::Trial* b) {
      return a->spec().pass() < b->spec().pass();
    });
    int64_t area = 0;
    for (const v1::Trial* trial : group) area = std::max(area, trial->result().area());
    table.AddHeading(Heading(group.front()->spec(), area));
    for (const v1::Trial* trial : group) {
      table.AddRow(RowOf(*trial, tera));
      if (!trial->result().reason().empty()) {
        table.AddNote(trial->result().reason(), ToneOf(trial->result().outcome()));
      }
    }
  }
  return fmt::format("{}\n{}\n", table.Render(terminal), OutcomeCounts(trials));
}

}  // namespace lcab::report
