// A trial and its result as one flat row: the fields of JSON and CSV, which docs/results.md
// documents.

#ifndef LCAB_REPORT_ROW_H_
#define LCAB_REPORT_ROW_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "lcab/v1/jobs.pb.h"

namespace lcab::report {

enum class FieldType { kText, kInteger, kReal, kBool };
std::string_view Name(FieldType type);  // "text", "integer", "real", "bool"

// Nothing where the trial has no such value (it did not end, it was not measured): null in JSON,
// empty in CSV. A real is always finite.
using FieldValue = std::variant<std::monostate, std::string, int64_t, double, bool>;

struct Field {
  std::string_view name;
  FieldType type;
  std::string_view unit;  // "seconds", "bytes", "pairs"; empty: none
  std::string_view description;
  FieldValue (*get)(const v1::Trial& trial);
};

// Every field, in the order of the columns. Adding one here adds it everywhere; names and meanings
// of those that are here stay.
std::span<const Field> Fields();

// The value of one field.
FieldValue Get(const Field& field, const v1::Trial& trial);

}  // namespace lcab::report

#endif  // LCAB_REPORT_ROW_H_
