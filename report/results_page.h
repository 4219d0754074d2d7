// docs/results.md: every field of the rows that programs read, from the tables that make them.

#ifndef LCAB_REPORT_RESULTS_PAGE_H_
#define LCAB_REPORT_RESULTS_PAGE_H_

#include <string>

namespace lcab::report {

std::string ResultsPage();

}  // namespace lcab::report

#endif  // LCAB_REPORT_RESULTS_PAGE_H_
