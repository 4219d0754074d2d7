#include "suites/reproduce.h"

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "attention/parameters.h"
#include "proto/proto_time.h"
#include "suites/conversion.h"
#include "suites/enum_names.h"
#include "suites/labels.h"

namespace lcab::suites {
namespace {

// In double quotes, as YAML and JSON both read it.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string YamlOf(const Value& value) {
  return std::visit(
      [](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return Quoted(data);
        } else if constexpr (std::is_same_v<T, Value::List>) {
          std::vector<std::string> parts;
          for (const Value& one : data) parts.push_back(YamlOf(one));
          return fmt::format("[{}]", fmt::join(parts, ", "));
        } else {
          return fmt::format("{}", data);
        }
      },
      value.data);
}

// "name", or a map of the name and its options, with `more` entries.
std::string YamlOf(const std::string& name, const Options& options,
                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> entries;
  for (const auto& [key, value] : options) {
    entries.push_back(fmt::format("{}: {}", key, YamlOf(value)));
  }
  entries.insert(entries.end(), more.begin(), more.end());
  if (entries.empty()) return name;
  return fmt::format("{{name: {}, {}}}", name, fmt::join(entries, ", "));
}

std::string MeasureOf(const v1::Measure& measure) {
  return fmt::format(
      "{{mode: {}, warmup: {}, min_samples: {}, max_samples: {}, max_time: {}, confidence: {}, "
      "precision: {}, cache: {}, inputs: {}, timeout: {}, memory_limit: {}}}",
      Name(measure.mode()), measure.warmup(), measure.min_samples(), measure.max_samples(),
      absl::FormatDuration(lcab::FromProto(measure.max_time())), measure.confidence(),
      measure.precision(), Name(measure.cache()), measure.inputs(),
      absl::FormatDuration(lcab::FromProto(measure.timeout())), measure.memory_limit_bytes());
}

std::string OperatorOf(const v1::SoftmaxOperator& softmax) {
  std::string text = "name: softmax";
  if (softmax.has_scale()) text += fmt::format(", scale: {}", softmax.scale());
  if (softmax.softcap() != 0) text += fmt::format(", softcap: {}", softmax.softcap());
  return fmt::format("{{{}}}", text);
}

}  // namespace

absl::StatusOr<std::string> SuiteText(const v1::TrialSpec& trial) {
  const v1::Problem& problem = trial.problem();
  const absl::StatusOr<Options> mask = ChangedMaskOptions(problem.mask());
  if (!mask.ok()) return mask.status();
  const absl::StatusOr<Options> kernel = ChangedKernelOptions(trial.kernel());
  if (!kernel.ok()) return kernel.status();
  const absl::StatusOr<Options> strategy = ChangedStrategyOptions(trial.strategy());
  if (!strategy.ok()) return strategy.status();
  std::vector<std::string> draw;
  if (problem.draw() > 0) draw.push_back(fmt::format("draw: {}", problem.draw()));

  std::string text = fmt::format(
      "name: repro\nseed: {}\nmeasure: {}\nmatrices:\n"
      "  - shape: {{q_heads: {}, kv_heads: {}, qk_head_dim: {}, v_head_dim: {}, dtype: {}}}\n"
      "    operator: {}\n    seq_len: {{q_tokens: {}, k_tokens: {}}}\n    mask: {}\n"
      "    kernel: {}\n    pass: {}\n    strategy: {}\n    ranks: {}\n    ranks_per_device: {}\n",
      problem.seed(), MeasureOf(trial.measure()), problem.q_heads(), problem.kv_heads(),
      problem.qk_head_dim(), problem.v_head_dim(), Name(problem.dtype()),
      OperatorOf(problem.softmax()), problem.q_tokens(), problem.k_tokens(),
      YamlOf(problem.mask().name(), *mask, draw), YamlOf(trial.kernel().name(), *kernel),
      Name(trial.pass()), YamlOf(trial.strategy().name(), *strategy), trial.ranks(),
      trial.ranks_per_device());
  if (trial.ranks() > 1) text += fmt::format("    overlap: {}\n", trial.overlap());
  return text;
}

}  // namespace lcab::suites
