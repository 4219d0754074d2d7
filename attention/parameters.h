// Named parameters of masks, kernels and strategies: what a suite may write after a name, as in
// `{name: sliding_window_causal, window: 256}`. A component declares its parameters once; suites
// validate against them, and lists and docs are generated from them.

#ifndef LCAB_ATTENTION_PARAMETERS_H_
#define LCAB_ATTENTION_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lcab {

// One parameter's value. Lists nest (slices are lists of five).
struct Value {
  using List = std::vector<Value>;
  std::variant<bool, int64_t, double, std::string, List> data;

  friend bool operator==(const Value&, const Value&) = default;
};

// What a suite gave, by parameter name.
using Options = std::map<std::string, Value, std::less<>>;

enum class ParameterKind { kBool, kInteger, kReal, kText, kList };

// The declaration of one parameter.
struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::kInteger;
  std::optional<Value> default_value;  // none: must be given
  std::string description;             // one line, with the unit
  std::optional<double> minimum;       // inclusive; numbers only
  std::optional<double> maximum;       // inclusive; numbers only
  std::vector<std::string> choices;    // texts only; empty: any text
};

// Fills in defaults and checks kinds and ranges; an integer serves where a number is declared.
// InvalidArgument names the parameter, what is
// wrong with it and what would be right (the nearest name for an unknown one).
absl::StatusOr<Options> ResolveOptions(std::string_view component, const Options& given,
                                       const std::vector<Parameter>& declared);

// Readers of resolved options: the parameter must be declared with that kind.
bool GetBool(const Options& options, std::string_view name);
int64_t GetInteger(const Options& options, std::string_view name);
double GetReal(const Options& options, std::string_view name);
const std::string& GetText(const Options& options, std::string_view name);
const Value::List& GetList(const Options& options, std::string_view name);

// A value as messages and canonical texts write it: 3, 0.5, true, pile, "two words", [1,2].
std::string ValueText(const Value& value);

// A canonical one-line text, `name` or `name{a=1,b=x}` with parameters in order: equal components
// have equal text.
std::string ComponentText(std::string_view name, const Options& options);

// The candidate with the smallest edit distance to `text`, when it is near enough to be what was
// meant; else empty.
std::string NearestName(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace lcab

#endif  // LCAB_ATTENTION_PARAMETERS_H_
