#include "report/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "report/quantities.h"
#include "suites/enum_names.h"
#include "suites/labels.h"
#include "suites/trial_key.h"

namespace lcab::report {

std::vector<std::vector<size_t>> GroupByProblem(
    size_t count, const std::function<const v1::TrialSpec&(size_t)>& spec) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < count; ++i) {
    const v1::TrialSpec& trial = spec(i);
    const auto [place, is_new] =
        places.emplace(fmt::format("{} {}/{}", suites::ProblemKey(trial.problem()), trial.ranks(),
                                   trial.ranks_per_device()),
                       groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(i);
  }
  for (std::vector<size_t>& group : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [&](size_t a, size_t b) { return spec(a).pass() < spec(b).pass(); });
  }
  return groups;
}

std::string ProblemHeading(const v1::TrialSpec& trial, int64_t area) {
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
  text += fmt::format("  {}", suites::Name(problem.dtype()));
  if (problem.softmax().softcap() != 0) {
    text += fmt::format("  softcap {}", problem.softmax().softcap());
  }
  if (problem.softmax().has_scale()) text += fmt::format("  scale {}", problem.softmax().scale());
  if (trial.ranks() > 1) text += fmt::format("  {} ranks", trial.ranks());
  if (trial.ranks_per_device() > 1) {
    text += fmt::format(" (virtual: {} a device)", trial.ranks_per_device());
  }
  if (area > 0) text += fmt::format("  area {}", Grouped(area));
  return text;
}

std::string StrategyText(const v1::TrialSpec& trial) {
  std::string text = suites::StrategyLabel(trial.strategy());
  if (trial.ranks() > 1 && !trial.overlap()) text += " no overlap";
  if (trial.measure().cache() == v1::CACHE_WARM) text += " warm";
  const std::string& inputs = trial.measure().inputs();
  if (!inputs.empty() && inputs != "normal") text += " " + inputs;
  return text;
}

}  // namespace lcab::report
