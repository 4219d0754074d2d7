// The results of trials as a table for people: one group a problem, one row a trial.

#ifndef LCAB_REPORT_RESULTS_TABLE_H_
#define LCAB_REPORT_RESULTS_TABLE_H_

#include <span>
#include <string>

#include "lcab/v1/jobs.pb.h"
#include "report/terminal.h"

namespace lcab::report {

// Rates, medians with their intervals, samples, errors and outcomes; below a trial that is not
// `ok`, why. A line with the counts of outcomes ends it.
std::string ResultsTable(std::span<const v1::Trial> trials, const Terminal& terminal);

// "22 trials: 20 ok, 1 wrong_result, 1 unsupported".
std::string OutcomeCounts(std::span<const v1::Trial> trials);

}  // namespace lcab::report

#endif  // LCAB_REPORT_RESULTS_TABLE_H_
