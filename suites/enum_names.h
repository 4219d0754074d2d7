// Enumerations of lcab.v1 as people and programs read them: OUTCOME_WRONG_RESULT is "wrong_result",
// STOP_REASON_MAX_TIME is "max_time". One rule for all, so that a new value has its name at once.

#ifndef LCAB_SUITES_ENUM_NAMES_H_
#define LCAB_SUITES_ENUM_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace lcab::suites {

// The name of a value; empty for the unspecified value and for one that this build does not know.
std::string EnumName(const google::protobuf::EnumDescriptor& type, int value);
// Every name of an enumeration, in the order of its declaration.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);
// The value of a name; nothing for any other text.
std::optional<int> EnumValue(const google::protobuf::EnumDescriptor& type, std::string_view name);

template <typename Enum>
std::string Name(Enum value) {
  return EnumName(*google::protobuf::GetEnumDescriptor<Enum>(), static_cast<int>(value));
}

template <typename Enum>
std::vector<std::string> Names() {
  return EnumNames(*google::protobuf::GetEnumDescriptor<Enum>());
}

template <typename Enum>
std::optional<Enum> ParseName(std::string_view name) {
  const std::optional<int> value = EnumValue(*google::protobuf::GetEnumDescriptor<Enum>(), name);
  if (!value.has_value()) return std::nullopt;
  return static_cast<Enum>(*value);
}

}  // namespace lcab::suites

#endif  // LCAB_SUITES_ENUM_NAMES_H_
