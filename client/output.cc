#include "client/output.h"

#include <sstream>
#include <string>

#include "proto/visible_text.h"

namespace lcab::client {

Argument OutputArgument(std::string* output) {
  *output = kTable;
  return {.name = "output",
          .target = output,
          .description = "how rows are printed",
          .choices = {kTable, "json", "csv"}};
}

void PrintRows(Console& console, const std::string& output, const report::Rows& rows) {
  const auto write = output == "csv" ? report::WriteCsv : report::WriteJson;
  if (!console.out_terminal.interactive) return write(rows, console.out);
  // Programs get every byte; a person's terminal does not.
  std::ostringstream text;
  write(rows, text);
  std::string lines = text.str();
  std::erase(lines, '\r');
  console.out << VisibleLines(lines);
}

}  // namespace lcab::client
