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
// name; with the files that it names, which are looked for in its folder. `-` is standard input,
// up to its end; files are then looked for in the current folder. NotFound says which suites ship;
// InvalidArgument says what is wrong with a file: a folder, a named pipe, a device, not to be read,
// more than 1 MiB, or more than 16 MiB of named files together. Waits for nobody but the writer of
// standard input (and of `/dev/fd/N`, which a shell makes of `<(...)`).
absl::StatusOr<SuiteSource> LoadSuite(std::string_view path_or_name);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_SOURCE_H_
