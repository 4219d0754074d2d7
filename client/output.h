// --output table|json|csv, for every verb that prints rows.

#ifndef LCAB_CLIENT_OUTPUT_H_
#define LCAB_CLIENT_OUTPUT_H_

#include <string>

#include "client/verb.h"
#include "report/rows.h"

namespace lcab::client {

inline constexpr const char* kTable = "table";

// `*output` is "table", "json" or "csv" after parsing.
Argument OutputArgument(std::string* output);

// Rows as JSON or CSV, whichever `output` is; not for tables.
void PrintRows(Console& console, const std::string& output, const report::Rows& rows);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_OUTPUT_H_
