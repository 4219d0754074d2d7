// Rows for programs: JSON (an array of flat objects, one a line; what is missing is null) and CSV.
// Integers are exact in both.

#ifndef LCAB_REPORT_ROWS_H_
#define LCAB_REPORT_ROWS_H_

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lcab/v1/jobs.pb.h"
#include "report/row.h"

namespace lcab::report {

// Rows of any kind: names, and for each row as many values.
struct Rows {
  std::vector<std::string> names;
  std::vector<std::vector<FieldValue>> values;
};

// The result rows of trials: every field of row.h.
Rows ResultRows(std::span<const v1::Trial> trials);

// Bytes that are not UTF-8 become U+FFFD.
void WriteJson(const Rows& rows, std::ostream& out);

// RFC 4180: a header, lines that end in CRLF, quotes where they are needed. Reals have as many
// digits as it takes to read back the same value.
void WriteCsv(const Rows& rows, std::ostream& out);

}  // namespace lcab::report

#endif  // LCAB_REPORT_ROWS_H_
