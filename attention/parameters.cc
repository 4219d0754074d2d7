// Checks what was given against what is declared, and writes it back in one form.

#include "attention/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "fmt/format.h"

namespace lcab {
namespace {

std::string_view KindName(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kBool:
      return "true or false";
    case ParameterKind::kInteger:
      return "an integer";
    case ParameterKind::kReal:
      return "a number";
    case ParameterKind::kText:
      return "a text";
    case ParameterKind::kList:
      return "a list";
  }
  return "";
}

std::string Join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The value as the declared kind; integers serve as numbers. Nothing when it is of another kind.
std::optional<Value> Converted(const Value& value, ParameterKind kind) {
  const auto holds = [&](ParameterKind held) {
    return kind == held ? std::optional<Value>(value) : std::nullopt;
  };
  if (std::holds_alternative<bool>(value.data)) return holds(ParameterKind::kBool);
  if (std::holds_alternative<double>(value.data)) return holds(ParameterKind::kReal);
  if (std::holds_alternative<std::string>(value.data)) return holds(ParameterKind::kText);
  if (std::holds_alternative<Value::List>(value.data)) return holds(ParameterKind::kList);
  if (kind == ParameterKind::kReal) {
    return Value{static_cast<double>(std::get<int64_t>(value.data))};
  }
  return holds(ParameterKind::kInteger);
}

std::string RangeText(const Parameter& parameter) {
  if (parameter.minimum && parameter.maximum) {
    return fmt::format("in {}..{}", *parameter.minimum, *parameter.maximum);
  }
  return parameter.minimum ? fmt::format("at least {}", *parameter.minimum)
                           : fmt::format("at most {}", *parameter.maximum);
}

// What is wrong with a converted value; empty: nothing.
std::string Objection(const Value& value, const Parameter& parameter) {
  std::optional<double> number;
  if (const auto* integer = std::get_if<int64_t>(&value.data)) {
    number = static_cast<double>(*integer);
  } else if (const auto* real = std::get_if<double>(&value.data)) {
    if (!std::isfinite(*real)) return "must be finite";
    number = *real;
  }
  if (number && ((parameter.minimum && *number < *parameter.minimum) ||
                 (parameter.maximum && *number > *parameter.maximum))) {
    return "must be " + RangeText(parameter);
  }
  const auto* text = std::get_if<std::string>(&value.data);
  if (text != nullptr && !parameter.choices.empty() &&
      std::find(parameter.choices.begin(), parameter.choices.end(), *text) ==
          parameter.choices.end()) {
    const std::string nearest = NearestName(*text, parameter.choices);
    return fmt::format("must be one of {}{}", Join(parameter.choices),
                       nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest));
  }
  return "";
}

absl::Status UnknownParameter(std::string_view component, std::string_view name,
                              const std::vector<Parameter>& declared) {
  if (declared.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' takes no parameters, but '{}' was given", component, name));
  }
  std::vector<std::string> names;
  for (const Parameter& parameter : declared) names.push_back(parameter.name);
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(fmt::format(
      "'{}' has no parameter '{}'{}; its parameters are {}", component, name,
      nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest), Join(names)));
}

// A text that needs no quotes where it stands between the braces and commas of a canonical form.
bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  });
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

template <typename T>
const T& Get(const Options& options, std::string_view name) {
  const auto found = options.find(name);
  const T* value = found == options.end() ? nullptr : std::get_if<T>(&found->second.data);
  if (value == nullptr) {
    // The reader and the declaration of a component disagree: a fault of the program.
    fmt::print(stderr, "option '{}' was not declared with the kind with which it is read\n", name);
    std::abort();
  }
  return *value;
}

}  // namespace

absl::StatusOr<Options> ResolveOptions(std::string_view component, const Options& given,
                                       const std::vector<Parameter>& declared) {
  Options resolved;
  for (const auto& [name, value] : given) {
    const auto parameter =
        std::find_if(declared.begin(), declared.end(),
                     [&key = name](const Parameter& p) { return p.name == key; });
    if (parameter == declared.end()) return UnknownParameter(component, name, declared);
    const std::optional<Value> converted = Converted(value, parameter->kind);
    if (!converted) {
      return absl::InvalidArgumentError(fmt::format("'{}': parameter '{}' must be {}, not {}",
                                                    component, name, KindName(parameter->kind),
                                                    ValueText(value)));
    }
    const std::string objection = Objection(*converted, *parameter);
    if (!objection.empty()) {
      return absl::InvalidArgumentError(fmt::format("'{}': parameter '{}' {}, not {}", component,
                                                    name, objection, ValueText(value)));
    }
    resolved.emplace(name, *converted);
  }
  for (const Parameter& parameter : declared) {
    if (resolved.contains(parameter.name)) continue;
    if (!parameter.default_value) {
      return absl::InvalidArgumentError(fmt::format("'{}' needs its parameter '{}': {}", component,
                                                    parameter.name, parameter.description));
    }
    const std::optional<Value> converted = Converted(*parameter.default_value, parameter.kind);
    resolved.emplace(parameter.name, converted ? *converted : *parameter.default_value);
  }
  return resolved;
}

bool GetBool(const Options& options, std::string_view name) { return Get<bool>(options, name); }
int64_t GetInteger(const Options& options, std::string_view name) {
  return Get<int64_t>(options, name);
}
double GetReal(const Options& options, std::string_view name) { return Get<double>(options, name); }
const std::string& GetText(const Options& options, std::string_view name) {
  return Get<std::string>(options, name);
}
const Value::List& GetList(const Options& options, std::string_view name) {
  return Get<Value::List>(options, name);
}

std::string ValueText(const Value& value) {
  return std::visit(
      [](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return IsPlain(data) ? data : Quoted(data);
        } else if constexpr (std::is_same_v<T, Value::List>) {
          std::vector<std::string> parts;
          for (const Value& element : data) parts.push_back(ValueText(element));
          return fmt::format("[{}]", fmt::join(parts, ","));
        } else {
          return fmt::format("{}", data);  // for a double: the shortest text that reads back
        }
      },
      value.data);
}

std::string ComponentText(std::string_view name, const Options& options) {
  if (options.empty()) return std::string(name);
  std::vector<std::string> parts;
  for (const auto& [key, value] : options) {
    parts.push_back(fmt::format("{}={}", key, ValueText(value)));
  }
  return fmt::format("{}{{{}}}", name, fmt::join(parts, ","));
}

std::string NearestName(std::string_view text, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t smallest = std::max<size_t>(text.size(), 3) / 3 + 1;  // farther is another word
  for (const std::string& candidate : candidates) {
    // The distance of Damerau and Levenshtein (optimal string alignment): a letter more, less or
    // another, or two neighbours swapped, is one mistake. Three rows of the table at a time.
    std::vector<size_t> before_last, last, row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= text.size(); ++i) {
      before_last = std::exchange(last, std::exchange(row, std::vector<size_t>(row.size())));
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replaced = last[j - 1] + (text[i - 1] == candidate[j - 1] ? 0 : 1);
        row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
        const bool swapped =
            i > 1 && j > 1 && text[i - 1] == candidate[j - 2] && text[i - 2] == candidate[j - 1];
        if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    if (row.back() < smallest) {
      smallest = row.back();
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace lcab
