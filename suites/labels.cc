#include "suites/labels.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/masks.h"
#include "attention/parameters.h"
#include "cp/strategy.h"
#include "kernels/registry.h"
#include "suites/conversion.h"
#include "suites/enum_names.h"

namespace lcab::suites {
namespace {

std::vector<Parameter> MaskParameters(std::string_view name) {
  const MaskType* type = FindMaskType(name);
  return type == nullptr ? std::vector<Parameter>() : type->parameters;
}

std::vector<Parameter> KernelParameters(std::string_view name) {
  const auto kernel = BuiltinKernels().Find(name);
  return kernel.ok() ? (*kernel)->parameters() : std::vector<Parameter>();
}

std::vector<Parameter> StrategyParameters(std::string_view name) {
  const auto strategy = cp::BuiltinStrategies().Find(name);
  return strategy.ok() ? (*strategy)->parameters() : std::vector<Parameter>();
}

absl::StatusOr<Options> Changed(const v1::Component& component,
                                const std::vector<Parameter>& declared) {
  absl::StatusOr<Options> options = OptionsOf(component);
  if (!options.ok()) return options;
  // Defaults in the form in which resolved options hold them.
  for (const Parameter& parameter : declared) {
    const auto resolved = ResolveOptions(component.name(), {}, {parameter});
    if (!resolved.ok()) continue;
    const auto given = options->find(parameter.name);
    if (given != options->end() && given->second == resolved->begin()->second) {
      options->erase(given);
    }
  }
  return options;
}

// `a=1,b=x`
std::string OptionsText(const absl::StatusOr<Options>& options) {
  if (!options.ok()) return "?";
  // `name{a=1}` without the name and the braces.
  const std::string text = ComponentText("", *options);
  return text.size() < 2 ? std::string() : text.substr(1, text.size() - 2);
}

// Cut where options hold long lists: a label stands in a line of a table.
std::string Label(const std::string& name, const std::string& options) {
  constexpr size_t kMostShown = 160;
  if (options.size() > kMostShown) {
    return fmt::format("{}{{{}...}}", name, options.substr(0, kMostShown));
  }
  return options.empty() ? name : fmt::format("{}{{{}}}", name, options);
}

}  // namespace

absl::StatusOr<Options> ChangedMaskOptions(const v1::Component& mask) {
  return Changed(mask, MaskParameters(mask.name()));
}
absl::StatusOr<Options> ChangedKernelOptions(const v1::Component& kernel) {
  return Changed(kernel, KernelParameters(kernel.name()));
}
absl::StatusOr<Options> ChangedStrategyOptions(const v1::Component& strategy) {
  return Changed(strategy, StrategyParameters(strategy.name()));
}

std::string MaskOptionsText(const v1::Component& mask) {
  return OptionsText(ChangedMaskOptions(mask));
}
std::string KernelOptionsText(const v1::Component& kernel) {
  return OptionsText(ChangedKernelOptions(kernel));
}
std::string StrategyOptionsText(const v1::Component& strategy) {
  return OptionsText(ChangedStrategyOptions(strategy));
}

std::string MaskLabel(const v1::Problem& problem) {
  std::string label = Label(problem.mask().name(), MaskOptionsText(problem.mask()));
  if (problem.draw() > 0) label += fmt::format("#{}", problem.draw());
  return label;
}

std::string KernelLabel(const v1::Component& kernel) {
  return Label(kernel.name(), KernelOptionsText(kernel));
}

std::string StrategyLabel(const v1::Component& strategy) {
  return Label(strategy.name(), StrategyOptionsText(strategy));
}

std::string SizeText(int64_t tokens) {
  constexpr int64_t kKilo = 1024;
  if (tokens == 0 || tokens % kKilo != 0) return fmt::format("{}", tokens);
  if (tokens % (kKilo * kKilo) != 0) return fmt::format("{}K", tokens / kKilo);
  if (tokens % (kKilo * kKilo * kKilo) != 0) return fmt::format("{}M", tokens / kKilo / kKilo);
  return fmt::format("{}G", tokens / kKilo / kKilo / kKilo);
}

std::string TrialLabel(const v1::TrialSpec& trial) {
  const v1::Problem& problem = trial.problem();
  const std::string kernel = KernelLabel(trial.kernel());
  const std::string who =
      trial.strategy().name() == "single" && trial.ranks() == 1
          ? kernel
          : fmt::format("{} x {} ({})", StrategyLabel(trial.strategy()), trial.ranks(), kernel);
  const std::string tokens =
      problem.q_tokens() == problem.k_tokens()
          ? SizeText(problem.q_tokens())
          : fmt::format("{}x{}", SizeText(problem.q_tokens()), SizeText(problem.k_tokens()));
  return fmt::format("{} {} {} {}", who, MaskLabel(problem), tokens, Name(trial.pass()));
}

}  // namespace lcab::suites
