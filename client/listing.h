// Rows that are neither results nor trials (jobs, workers), as a table for people or as JSON or CSV
// for programs.

#ifndef LCAB_CLIENT_LISTING_H_
#define LCAB_CLIENT_LISTING_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/output.h"
#include "client/verb.h"
#include "report/row.h"
#include "report/rows.h"
#include "report/table.h"

namespace lcab::client {

class Listing {
 public:
  struct Column {
    std::string name;  // in JSON and CSV; the table's title, too
    report::Align align = report::Align::kLeft;
    bool may_shrink = false;
    bool in_table = true;
  };
  // What programs read, and what the table shows where that differs.
  struct Value {
    report::FieldValue value;
    std::string text = {};  // empty: the value itself
  };

  explicit Listing(std::vector<Column> columns);
  // As many values as there are columns.
  void Add(std::vector<Value> values);
  bool empty() const { return rows_.values.empty(); }
  // `output` is "table", "json" or "csv"; `none` is said in place of an empty table.
  void Print(Console& console, const std::string& output, std::string_view none) const;

 private:
  std::vector<Column> columns_;
  report::Rows rows_;
  std::vector<std::vector<std::string>> texts_;
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_LISTING_H_
