// Trials that stand together in a table, and what is said above them.

#ifndef LCAB_REPORT_GROUPING_H_
#define LCAB_REPORT_GROUPING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lcab/v1/trial.pb.h"

namespace lcab::report {

// Indices of `count` trials in groups of one problem on one number of ranks, in the order of their
// first trials; within a group forward comes before backward, and else the order stays.
std::vector<std::vector<size_t>> GroupByProblem(
    size_t count, const std::function<const v1::TrialSpec&(size_t)>& spec);

// "causal  4K tokens  8:2 heads x 64  bf16  4 ranks  area 67,125,248". `area` 0 is left out.
std::string ProblemHeading(const v1::TrialSpec& trial, int64_t area);

// The strategy, and what else of the trial is not usual: "ring no overlap", "single warm".
std::string StrategyText(const v1::TrialSpec& trial);

}  // namespace lcab::report

#endif  // LCAB_REPORT_GROUPING_H_
