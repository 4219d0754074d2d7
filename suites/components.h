// Masks, kernels and strategies as suites name them: `cpu_tiled`, or `{name: cpu_tiled, threads:
// 2}` with parameters as the component declares them.

#ifndef LCAB_SUITES_COMPONENTS_H_
#define LCAB_SUITES_COMPONENTS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "suites/diagnostics.h"
#include "suites/suite.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {

// What is known of one component.
struct ComponentType {
  std::vector<Parameter> parameters;
  bool random = false;  // has draws
};

// All components of a kind.
struct ComponentKind {
  std::string word;                // "kernel"
  std::vector<std::string> names;  // for messages
  std::string note;                // ends the message about an unknown name; may be empty
  std::function<std::optional<ComponentType>(std::string_view name)> find;
  // The value of a list parameter that is given as the name of a file. Not set: there are no such.
  std::function<absl::StatusOr<Value>(std::string_view parameter, const std::string& file)>
      read_file = {};
};

// Every component that `tree`, the value of a matrix's key, stands for, its parameters resolved.
// What does not fit is left out, with a finding at its place.
Axis<Choice> ReadComponents(const Tree& tree, const ComponentKind& kind, Diagnostics& diagnostics);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_COMPONENTS_H_
