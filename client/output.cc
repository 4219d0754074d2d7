#include "client/output.h"

#include <string>

namespace lcab::client {

Argument OutputArgument(std::string* output) {
  *output = kTable;
  return {.name = "output",
          .target = output,
          .description = "how rows are printed",
          .choices = {kTable, "json", "csv"}};
}

void PrintRows(Console& console, const std::string& output, const report::Rows& rows) {
  if (output == "csv") {
    report::WriteCsv(rows, console.out);
  } else {
    report::WriteJson(rows, console.out);
  }
}

}  // namespace lcab::client
