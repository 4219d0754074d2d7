// What a suite would run, as a table for people and as rows for programs.

#ifndef LCAB_REPORT_EXPLAIN_H_
#define LCAB_REPORT_EXPLAIN_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lcab/v1/trial.pb.h"
#include "report/row.h"
#include "report/rows.h"
#include "report/terminal.h"
#include "suites/estimate.h"

namespace lcab::report {

struct ExplainedTrial {
  int64_t cohort = 0;
  int64_t index = 0;  // among all trials of the suite
  v1::TrialSpec spec;
  suites::Estimate estimate;
};

// One group a problem; below a trial that cannot run, why. A line with counts and the time of all
// ends it.
std::string ExplainTable(std::span<const ExplainedTrial> trials, const Terminal& terminal);

struct ExplainField {
  std::string_view name;
  FieldType type;
  std::string_view unit;
  std::string_view description;
  FieldValue (*get)(const ExplainedTrial& trial);
};

// The fields that an explained trial has besides those of row.h that tell what it is (from "kernel"
// to "inputs").
std::span<const ExplainField> ExplainFields();
Rows ExplainRows(std::span<const ExplainedTrial> trials);

}  // namespace lcab::report

#endif  // LCAB_REPORT_EXPLAIN_H_
