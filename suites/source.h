// Where suites come from: files, and those that ship inside the program.

#ifndef LCAB_SUITES_SOURCE_H_
#define LCAB_SUITES_SOURCE_H_

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "suites/parse.h"

namespace lcab::suites {

// A suite that ships: suites/<name>.yaml, embedded when the program is built.
struct ShippedSuite {
  std::string_view name;
  std::string_view text;
};

// In order of name.
std::span<const ShippedSuite> ShippedSuites();

// The suite in the file `path_or_name`, or, where there is no such file, the shipped suite of that
// name; with the files that it names, which are looked for in its folder. NotFound says which
// suites ship; InvalidArgument says what is wrong with a file (a folder, not to be read, more than
// 1 MiB).
absl::StatusOr<SuiteSource> LoadSuite(std::string_view path_or_name);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_SOURCE_H_
