// The way back from a trial to a suite: one that stands for this trial alone.

#ifndef LCAB_SUITES_REPRODUCE_H_
#define LCAB_SUITES_REPRODUCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::suites {

// YAML. Expanded, it is one trial with the same key and the same measure. Parameters that have
// their default are left out. InvalidArgument for a trial that no suite can stand for (values of
// kinds that this build does not know).
absl::StatusOr<std::string> SuiteText(const v1::TrialSpec& trial);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_REPRODUCE_H_
