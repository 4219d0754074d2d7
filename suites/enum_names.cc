#include "suites/enum_names.h"

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lcab::suites {
namespace {

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// What all values of an enumeration begin with is what its zero value has before "UNSPECIFIED":
// STOP_REASON_ of STOP_REASON_UNSPECIFIED.
size_t PrefixLength(const google::protobuf::EnumDescriptor& type) {
  constexpr std::string_view kZero = "UNSPECIFIED";
  const auto* zero = type.FindValueByNumber(0);
  if (zero == nullptr || zero->name().size() < kZero.size()) return 0;
  return zero->name().size() - kZero.size();
}

std::string NameOf(const google::protobuf::EnumValueDescriptor& value) {
  if (value.number() == 0) return {};
  std::string name = value.name().substr(PrefixLength(*value.type()));
  for (char& c : name) c = Lower(c);
  return name;
}

}  // namespace

std::string EnumName(const google::protobuf::EnumDescriptor& type, int value) {
  const auto* found = type.FindValueByNumber(value);
  return found == nullptr ? std::string() : NameOf(*found);
}

std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(NameOf(*type.value(i)));
  }
  return names;
}

std::optional<int> EnumValue(const google::protobuf::EnumDescriptor& type, std::string_view name) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0 && NameOf(*type.value(i)) == name) {
      return type.value(i)->number();
    }
  }
  return std::nullopt;
}

}  // namespace lcab::suites
