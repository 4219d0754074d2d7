#include "report/rows.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lcab::report {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const FieldValue& value) {
  return std::visit(
      [](const auto& data) -> Json {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, double>) {
          return std::isfinite(data) ? Json(data) : Json(nullptr);
        } else {
          return data;
        }
      },
      value);
}

// RFC 4180, section 2: fields with line breaks, quotes or commas are quoted, quotes doubled.
std::string CsvText(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string CsvField(const FieldValue& value) {
  return std::visit(
      [](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::string>) {
          return CsvText(data);
        } else if constexpr (std::is_same_v<T, double>) {
          return std::isfinite(data) ? fmt::format("{}", data) : std::string();
        } else {
          return fmt::format("{}", data);
        }
      },
      value);
}

}  // namespace

Rows ResultRows(std::span<const v1::Trial> trials) {
  Rows rows;
  for (const Field& field : Fields()) rows.names.emplace_back(field.name);
  for (const v1::Trial& trial : trials) {
    std::vector<FieldValue>& values = rows.values.emplace_back();
    for (const Field& field : Fields()) values.push_back(Get(field, trial));
  }
  return rows;
}

void WriteJson(const Rows& rows, std::ostream& out) {
  out << '[';
  for (size_t r = 0; r < rows.values.size(); ++r) {
    Json object = Json::object();
    for (size_t c = 0; c < rows.names.size(); ++c) {
      object[rows.names[c]] = ToJson(rows.values[r][c]);
    }
    out << (r == 0 ? "\n" : ",\n")
        << object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  }
  out << (rows.values.empty() ? "]\n" : "\n]\n");
}

void WriteCsv(const Rows& rows, std::ostream& out) {
  for (size_t c = 0; c < rows.names.size(); ++c) {
    out << (c == 0 ? "" : ",") << CsvText(rows.names[c]);
  }
  out << "\r\n";
  for (const std::vector<FieldValue>& values : rows.values) {
    for (size_t c = 0; c < values.size(); ++c) out << (c == 0 ? "" : ",") << CsvField(values[c]);
    out << "\r\n";
  }
}

}  // namespace lcab::report
