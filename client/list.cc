// `lcab-client list`: the kernels, masks, strategies and suites of this build.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/masks.h"
#include "attention/parameters.h"
#include "client/output.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "report/rows.h"
#include "report/table.h"
#include "suites/catalogue.h"
#include "suites/expand.h"
#include "suites/parse.h"
#include "suites/source.h"

namespace lcab::client {
namespace {

// Something with a name that a suite may use, or a suite.
struct Entry {
  std::string name;
  std::string description;
  std::vector<std::string> parameters;  // a line each
};

std::string Range(const Parameter& parameter) {
  if (!parameter.choices.empty()) return fmt::format("{}", fmt::join(parameter.choices, "|"));
  if (parameter.minimum && parameter.maximum) {
    return fmt::format("{} to {}", *parameter.minimum, *parameter.maximum);
  }
  if (parameter.minimum) return fmt::format("{} or more", *parameter.minimum);
  if (parameter.maximum) return fmt::format("{} or less", *parameter.maximum);
  return {};
}

std::vector<std::string> Describe(const std::vector<Parameter>& parameters) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : parameters) {
    std::string line = fmt::format("{}: {}", parameter.name, parameter.description);
    if (const std::string range = Range(parameter); !range.empty()) {
      line += fmt::format(" ({})", range);
    }
    line += parameter.default_value.has_value()
                ? fmt::format(" [default: {}]", ValueText(*parameter.default_value))
                : std::string(" (required)");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Entry> Kernels() {
  std::vector<Entry> entries;
  const suites::Catalogue catalogue = suites::Catalogue::Builtin();
  for (const suites::KernelEntry* kernel : catalogue.Kernels()) {
    entries.push_back({kernel->name,
                       fmt::format("{}: {}", kernel->device_kind, kernel->description),
                       Describe(kernel->parameters)});
  }
  return entries;
}

std::vector<Entry> Masks() {
  std::vector<Entry> entries;
  for (const MaskType& type : MaskTypes()) {
    entries.push_back({type.name, type.description, Describe(type.parameters)});
    if (type.random) {
      entries.back().parameters.emplace_back(
          "draws: random masks that are drawn, each a trial of its own (1 to 1000) [default: 1]");
      entries.back().parameters.emplace_back(
          "draw: number of the first of them (0 to 1000) [default: 0]");
    }
  }
  return entries;
}

std::vector<Entry> Strategies() {
  std::vector<Entry> entries;
  for (const cp::Strategy* strategy : cp::BuiltinStrategies().List()) {
    entries.push_back(
        {strategy->name(), strategy->description(), Describe(strategy->parameters())});
  }
  return entries;
}

std::vector<Entry> Suites() {
  std::vector<Entry> entries;
  const suites::Catalogue catalogue = suites::Catalogue::Builtin();
  for (const suites::ShippedSuite& shipped : suites::ShippedSuites()) {
    Entry entry{.name = std::string(shipped.name)};
    const absl::StatusOr<suites::Suite> suite =
        suites::ParseSuite({.file_name = entry.name, .text = std::string(shipped.text)}, catalogue);
    const auto expansion = suite.ok() ? suites::Expand(*suite, catalogue) : suite.status();
    entry.description = expansion.ok()
                            ? fmt::format("{} ({} trials)", suite->description, expansion->trials)
                            : std::string(expansion.status().message());
    entries.push_back(std::move(entry));
  }
  return entries;
}

struct Kind {
  std::string_view name;
  std::vector<Entry> (*list)();
};
constexpr Kind kKinds[] = {
    {"kernels", Kernels}, {"masks", Masks}, {"strategies", Strategies}, {"suites", Suites}};

class ListVerb : public Verb {
 public:
  std::string_view name() const override { return "list"; }
  std::string_view summary() const override {
    return "List the kernels, masks, strategies or suites of this program, with their parameters";
  }
  std::string_view example() const override {
    return "lcab-client list masks\nlcab-client list kernels --output json";
  }
  std::vector<Argument> Arguments() override {
    std::vector<std::string> names;
    for (const Kind& kind : kKinds) names.emplace_back(kind.name);
    return {{.name = "what",
             .target = &what_,
             .description = "what to list",
             .form = Form::kPositional,
             .required = true,
             .choices = std::move(names)},
            OutputArgument(&output_)};
  }

  ExitCode Run(Console& console) override {
    for (const Kind& kind : kKinds) {
      if (kind.name == what_) Print(console, kind.list());
    }
    return ExitCode::kOk;
  }

 private:
  void Print(Console& console, const std::vector<Entry>& entries) const {
    if (output_ != kTable) {
      report::Rows rows{.names = {"name", "description", "parameters"}};
      for (const Entry& entry : entries) {
        rows.values.push_back(
            {entry.name, entry.description, fmt::format("{}", fmt::join(entry.parameters, "\n"))});
      }
      return PrintRows(console, output_, rows);
    }
    const auto width = static_cast<size_t>(std::max(console.out_terminal.width, 40));
    const bool color = console.out_terminal.color;
    for (const Entry& entry : entries) {
      console.out << fmt::format("{}{}{}\n", color ? "\033[1m" : "", entry.name,
                                 color ? "\033[0m" : "");
      console.out << report::Wrap(entry.description, width, 4) << '\n';
      for (const std::string& line : entry.parameters) {
        console.out << report::Wrap(line, width, 8) << '\n';
      }
    }
  }

  std::string what_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Verb> MakeListVerb() { return std::make_unique<ListVerb>(); }

}  // namespace lcab::client
