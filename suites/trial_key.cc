#include "suites/trial_key.h"

#include <fmt/format.h>

#include <string>

#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "suites/conversion.h"
#include "suites/enum_names.h"

namespace lcab::suites {

std::string ComponentKey(const v1::Component& component) {
  const absl::StatusOr<Options> options = OptionsOf(component);
  // Values of kinds that this build does not know are kept apart from those that it knows.
  if (!options.ok()) return component.SerializeAsString();
  return ComponentText(component.name(), *options);
}

std::string ProblemKey(const v1::Problem& problem) {
  const v1::SoftmaxOperator& softmax = problem.softmax();
  return fmt::format(
      "softmax(scale={},softcap={}) heads={}:{} dims={}:{} {} {} tokens={}:{} seed={} draw={}",
      softmax.has_scale() ? fmt::format("{}", softmax.scale()) : "default", softmax.softcap(),
      problem.q_heads(), problem.kv_heads(), problem.qk_head_dim(), problem.v_head_dim(),
      Name(problem.dtype()), ComponentKey(problem.mask()), problem.q_tokens(), problem.k_tokens(),
      problem.seed(), problem.draw());
}

std::string TrialKey(const v1::TrialSpec& trial) {
  // A rank alone has nothing to overlap with.
  const bool overlap = trial.overlap() && trial.ranks() > 1;
  return fmt::format("{} {} {} {} ranks={}/{} overlap={} {} {} {}", ProblemKey(trial.problem()),
                     Name(trial.pass()), ComponentKey(trial.kernel()),
                     ComponentKey(trial.strategy()), trial.ranks(), trial.ranks_per_device(),
                     overlap, Name(trial.measure().mode()), Name(trial.measure().cache()),
                     trial.measure().inputs());
}

}  // namespace lcab::suites
