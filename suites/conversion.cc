#include "suites/conversion.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "attention/masks.h"

namespace lcab::suites {
namespace {

// Slices are lists in a list; nothing nests deeper than that and one more.
constexpr int kDeepestValue = 4;

absl::StatusOr<Value> ValueFrom(const v1::Value& value, int depth) {
  switch (value.kind_case()) {
    case v1::Value::kBoolValue:
      return Value{value.bool_value()};
    case v1::Value::kIntegerValue:
      return Value{value.integer_value()};
    case v1::Value::kRealValue:
      return Value{value.real_value()};
    case v1::Value::kTextValue:
      return Value{value.text_value()};
    case v1::Value::kListValue: {
      if (depth == kDeepestValue) {
        return absl::InvalidArgumentError(
            fmt::format("a parameter's lists nest deeper than {}", kDeepestValue));
      }
      Value::List list;
      for (const v1::Value& element : value.list_value().values()) {
        absl::StatusOr<Value> one = ValueFrom(element, depth + 1);
        if (!one.ok()) return one.status();
        list.push_back(*std::move(one));
      }
      return Value{std::move(list)};
    }
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "a parameter's value is of a kind that this build does not know");
}

absl::StatusOr<ParameterKind> FromProto(v1::ParameterInfo::Kind kind) {
  switch (kind) {
    case v1::ParameterInfo::KIND_BOOL:
      return ParameterKind::kBool;
    case v1::ParameterInfo::KIND_INTEGER:
      return ParameterKind::kInteger;
    case v1::ParameterInfo::KIND_REAL:
      return ParameterKind::kReal;
    case v1::ParameterInfo::KIND_TEXT:
      return ParameterKind::kText;
    case v1::ParameterInfo::KIND_LIST:
      return ParameterKind::kList;
    default:
      return absl::InvalidArgumentError("a parameter is of a kind that this build does not know");
  }
}

v1::ParameterInfo::Kind ToProto(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kBool:
      return v1::ParameterInfo::KIND_BOOL;
    case ParameterKind::kInteger:
      return v1::ParameterInfo::KIND_INTEGER;
    case ParameterKind::kReal:
      return v1::ParameterInfo::KIND_REAL;
    case ParameterKind::kText:
      return v1::ParameterInfo::KIND_TEXT;
    case ParameterKind::kList:
      return v1::ParameterInfo::KIND_LIST;
  }
  return v1::ParameterInfo::KIND_UNSPECIFIED;
}

absl::Status CheckTokens(std::string_view name, int64_t tokens) {
  if (tokens >= 0 && tokens <= kMostTokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; it must be 0 to {}", name, tokens, kMostTokens));
}

}  // namespace

v1::DType ToProto(DType dtype) {
  return dtype == DType::kFloat32 ? v1::DTYPE_FP32 : v1::DTYPE_BF16;
}

v1::Pass ToProto(Pass pass) {
  return pass == Pass::kForward ? v1::PASS_FORWARD : v1::PASS_BACKWARD;
}

v1::Value ToProto(const Value& value) {
  v1::Value result;
  std::visit(
      [&](const auto& data) {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, bool>) {
          result.set_bool_value(data);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          result.set_integer_value(data);
        } else if constexpr (std::is_same_v<T, double>) {
          result.set_real_value(data);
        } else if constexpr (std::is_same_v<T, std::string>) {
          result.set_text_value(data);
        } else {
          auto& list = *result.mutable_list_value();  // present even when it has no element
          for (const Value& element : data) *list.add_values() = ToProto(element);
        }
      },
      value.data);
  return result;
}

v1::Component MakeComponent(std::string_view name, const Options& options) {
  v1::Component component;
  component.set_name(std::string(name));
  for (const auto& [key, value] : options) (*component.mutable_options())[key] = ToProto(value);
  return component;
}

v1::ParameterInfo ToProto(const Parameter& parameter) {
  v1::ParameterInfo info;
  info.set_name(parameter.name);
  info.set_kind(ToProto(parameter.kind));
  info.set_description(parameter.description);
  if (parameter.default_value) *info.mutable_default_value() = ToProto(*parameter.default_value);
  if (parameter.minimum) info.set_minimum(*parameter.minimum);
  if (parameter.maximum) info.set_maximum(*parameter.maximum);
  for (const std::string& choice : parameter.choices) info.add_choices(choice);
  return info;
}

absl::StatusOr<DType> FromProto(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_FP32:
      return DType::kFloat32;
    case v1::DTYPE_BF16:
      return DType::kBFloat16;
    default:
      return absl::InvalidArgumentError(fmt::format(
          "dtype {} is not known to this build; it knows fp32 and bf16", static_cast<int>(dtype)));
  }
}

absl::StatusOr<Pass> FromProto(v1::Pass pass) {
  switch (pass) {
    case v1::PASS_FORWARD:
      return Pass::kForward;
    case v1::PASS_BACKWARD:
      return Pass::kBackward;
    default:
      return absl::InvalidArgumentError(
          fmt::format("pass {} is not known to this build; it knows forward and backward",
                      static_cast<int>(pass)));
  }
}

absl::StatusOr<Value> FromProto(const v1::Value& value) { return ValueFrom(value, 0); }

absl::StatusOr<Options> OptionsOf(const v1::Component& component) {
  Options options;
  for (const auto& [key, value] : component.options()) {
    absl::StatusOr<Value> one = FromProto(value);
    if (!one.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: {}", component.name(), key, std::string(one.status().message())));
    }
    options.emplace(key, *std::move(one));
  }
  return options;
}

absl::StatusOr<Parameter> FromProto(const v1::ParameterInfo& parameter) {
  Parameter result;
  result.name = parameter.name();
  absl::StatusOr<ParameterKind> kind = FromProto(parameter.kind());
  if (!kind.ok()) return kind.status();
  result.kind = *kind;
  result.description = parameter.description();
  if (parameter.has_default_value()) {
    absl::StatusOr<Value> value = FromProto(parameter.default_value());
    if (!value.ok()) return value.status();
    result.default_value = *std::move(value);
  }
  if (parameter.has_minimum()) result.minimum = parameter.minimum();
  if (parameter.has_maximum()) result.maximum = parameter.maximum();
  result.choices.assign(parameter.choices().begin(), parameter.choices().end());
  return result;
}

absl::StatusOr<Problem> MakeProblem(const v1::Problem& problem) {
  if (!problem.has_softmax()) {
    return absl::InvalidArgumentError(
        "the problem's operator is not known to this build; it knows "
        "softmax");
  }
  if (absl::Status s = CheckTokens("q_tokens", problem.q_tokens()); !s.ok()) return s;
  if (absl::Status s = CheckTokens("k_tokens", problem.k_tokens()); !s.ok()) return s;
  Problem result;
  Softmax softmax{.softcap = problem.softmax().softcap()};
  if (problem.softmax().has_scale()) softmax.scale = problem.softmax().scale();
  result.op = softmax;
  result.q_heads = problem.q_heads();
  result.kv_heads = problem.kv_heads();
  result.qk_head_dim = problem.qk_head_dim();
  result.v_head_dim = problem.v_head_dim();
  absl::StatusOr<DType> dtype = FromProto(problem.dtype());
  if (!dtype.ok()) return dtype.status();
  result.dtype = *dtype;

  absl::StatusOr<Options> options = OptionsOf(problem.mask());
  if (!options.ok()) return options.status();
  const MaskContext context{.q_tokens = problem.q_tokens(),
                            .k_tokens = problem.k_tokens(),
                            .kv_heads = problem.kv_heads(),
                            .seed = problem.seed(),
                            .draw = problem.draw()};
  // Before the mask is made: it may have a group for each kv head.
  result.mask = std::make_shared<const Mask>();
  if (absl::Status s = Validate(result); !s.ok()) return s;
  absl::StatusOr<Mask> mask = MakeMask(problem.mask().name(), *options, context);
  if (!mask.ok()) return mask.status();
  result.mask = std::make_shared<const Mask>(*std::move(mask));
  if (absl::Status s = Validate(result); !s.ok()) return s;
  return result;
}

v1::KernelInfo Describe(const Kernel& kernel) {
  v1::KernelInfo info;
  info.set_name(kernel.name());
  info.set_device_kind(std::string(Name(kernel.device_kind())));
  info.set_description(kernel.description());
  info.set_hidden(kernel.hidden());
  for (const Parameter& parameter : kernel.parameters()) {
    *info.add_parameters() = ToProto(parameter);
  }
  return info;
}

std::string_view Name(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

}  // namespace lcab::suites
