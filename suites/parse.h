// From the text of a suite to its matrices, strictly: whatever is not understood is refused.

#ifndef LCAB_SUITES_PARSE_H_
#define LCAB_SUITES_PARSE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "suites/catalogue.h"
#include "suites/suite.h"

namespace lcab::suites {

// A suite before it is read.
struct SuiteSource {
  std::string file_name;  // as messages call it
  std::string text;
  // Contents of the files that the suite names (histograms of document lengths), by the name it
  // uses for them.
  std::map<std::string, std::string> files = {};
};

// The parameter of masks over documents that may be given as a file's name.
inline constexpr std::string_view kHistogramParameter = "histogram";

// InvalidArgument lists everything that is wrong, a line each: `file:line:column: what is wrong and
// what would be right`. Never fails otherwise, whatever the text.
absl::StatusOr<Suite> ParseSuite(const SuiteSource& source, const Catalogue& catalogue);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_PARSE_H_
