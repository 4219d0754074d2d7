// What is wrong with a suite, all of it: each finding has its place and says what would be right.

#ifndef LCAB_SUITES_DIAGNOSTICS_H_
#define LCAB_SUITES_DIAGNOSTICS_H_

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"

namespace lcab::suites {

// A place in a file, counted from 1. Line 0: the file as a whole.
struct Location {
  int line = 0;
  int column = 0;

  friend bool operator==(const Location&, const Location&) = default;
};

// Collects findings. One that is found again (an axis repeats what is wrong with one of its values)
// counts once.
class Diagnostics {
 public:
  // `file_name` is what messages call the file.
  explicit Diagnostics(std::string_view file_name);

  void Add(Location where, std::string_view message);
  bool empty() const { return findings_.empty(); }
  // Ok, or InvalidArgument with a line `file:line:column: message` for each finding, in the order
  // of the file, at most 20 and then how many more there are.
  absl::Status ToStatus() const;

 private:
  std::string file_name_;
  std::set<std::tuple<int, int, std::string>> findings_;
};

// A text from a suite for use in a message: in single quotes, cut to 60 bytes, what a terminal
// would act upon shown as VisibleText() does.
std::string Quote(std::string_view text);

// "unknown <what> '<name>'; did you mean 'x'? Known: x, y", or without the question where no name
// is near.
std::string UnknownName(std::string_view what, std::string_view name,
                        const std::vector<std::string>& known);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_DIAGNOSTICS_H_
