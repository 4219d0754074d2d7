// From a suite to the trials it stands for, in the cohorts that must be compared.

#ifndef LCAB_SUITES_EXPAND_H_
#define LCAB_SUITES_EXPAND_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lcab/v1/trial.pb.h"
#include "suites/catalogue.h"
#include "suites/suite.h"

namespace lcab::suites {

// Trials of one job. More would be more than anyone reads, and than a submission should cost.
inline constexpr int64_t kMostTrials = 50'000;

struct Expansion {
  // In the order of their first trials in the suite. A trial's index in its job counts through
  // them.
  std::vector<v1::CohortSpec> cohorts;
  int64_t trials = 0;
};

// Every point of every matrix is a trial; none is left out (`overlap` is no axis where ranks is 1:
// there is nothing to overlap). One that cannot run (a strategy that
// does not fit the ranks, a kernel of this build that cannot compute it) has `unsupported_reason`.
//
// A cohort holds the trials of one problem, pass, gang (ranks, ranks per device, kind of device)
// and measure; they differ in kernel, strategy, overlap and parameters. Forward and backward are
// different cohorts: their times are never compared, and interleaving them would only lengthen
// rounds.
//
// InvalidArgument, with places in the file, for what no trial could be made of (a mask that does
// not fit its tokens) and for more than kMostTrials.
absl::StatusOr<Expansion> Expand(const Suite& suite, const Catalogue& catalogue);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_EXPAND_H_
