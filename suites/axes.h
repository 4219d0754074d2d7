// Lists in a suite are axes: what one entry stands for, as the concrete entries it names.

#ifndef LCAB_SUITES_AXES_H_
#define LCAB_SUITES_AXES_H_

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "suites/diagnostics.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {

// Whether the list under `key` of `map` is a value as it stands (slices), not an axis.
using IsValue = std::function<bool(const Tree& map, std::string_view key)>;

// Values that all combinations of a map may hold together.
inline constexpr size_t kMostCopied = 1'000'000;

// The values of a tree, itself among them.
size_t CountNodes(const Tree& tree);

// `[a, b]` gives a, b; `{x: [1, 2], y: [3, 4]}` gives the maps (1, 3), (1, 4), (2, 3), (2, 4); a
// scalar gives itself. Findings, and nothing, for empty lists, lists in lists, missing values and
// more than 2,000 combinations or kMostCopied values in them.
std::vector<Tree> Alternatives(const Tree& tree, const IsValue& is_value, Diagnostics& diagnostics);
// The same where every list is an axis.
std::vector<Tree> Alternatives(const Tree& tree, Diagnostics& diagnostics);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_AXES_H_
