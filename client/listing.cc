#include "client/listing.h"

#include <fmt/format.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace lcab::client {
namespace {

std::string TextOf(const report::FieldValue& value) {
  return std::visit(
      [](const auto& one) -> std::string {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "-";
        } else if constexpr (std::is_same_v<T, bool>) {
          return one ? "yes" : "no";
        } else {
          return fmt::format("{}", one);
        }
      },
      value);
}

}  // namespace

Listing::Listing(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) rows_.names.push_back(column.name);
}

void Listing::Add(std::vector<Value> values) {
  std::vector<report::FieldValue>& row = rows_.values.emplace_back();
  std::vector<std::string>& texts = texts_.emplace_back();
  for (Value& value : values) {
    texts.push_back(value.text.empty() ? TextOf(value.value) : std::move(value.text));
    row.push_back(std::move(value.value));
  }
}

void Listing::Print(Console& console, const std::string& output, std::string_view none) const {
  if (output != kTable) {
    PrintRows(console, output, rows_);
    return;
  }
  if (empty()) {
    console.out << none << '\n';
    return;
  }
  std::vector<report::Column> columns;
  for (const Column& column : columns_) {
    if (column.in_table) columns.push_back({column.name, column.align, column.may_shrink});
  }
  report::Table table(columns);
  for (const std::vector<std::string>& texts : texts_) {
    std::vector<report::Cell> cells;
    for (size_t n = 0; n < texts.size(); ++n) {
      if (columns_[n].in_table) cells.emplace_back(texts[n]);
    }
    table.AddRow(std::move(cells));
  }
  console.out << table.Render(console.out_terminal);
}

}  // namespace lcab::client
