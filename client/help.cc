#include "client/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace lcab::client {
namespace {

constexpr size_t kWidth = 100;

bool IsFlag(const Argument& argument) { return std::holds_alternative<bool*>(argument.target); }

// The default as a person would write it; empty where there is none worth showing.
std::string DefaultText(const Argument& argument) {
  return std::visit(
      [](auto* target) -> std::string {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
          return fmt::format("{}", *target);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return *target;
        } else if constexpr (std::is_same_v<T, absl::Duration>) {
          return absl::FormatDuration(*target);
        } else {
          return {};
        }
      },
      argument.target);
}

// "--output table|json|csv", "SUITE".
std::string Spelling(const Argument& argument) {
  std::string value = argument.choices.empty()
                          ? argument.value
                          : fmt::format("{}", fmt::join(argument.choices, "|"));
  if (argument.form == Form::kPositional) return value;
  return IsFlag(argument) ? fmt::format("--{}", argument.name)
                          : fmt::format("--{} {}", argument.name, value);
}

std::string Explanation(const Argument& argument) {
  std::string text = argument.description;
  if (argument.form == Form::kOption && argument.required) text += " (required)";
  if (std::string value = DefaultText(argument); !argument.required && !value.empty()) {
    text += fmt::format(" [default: {}]", value);
  }
  if (!argument.environment.empty())
    text += fmt::format(" [environment: {}]", argument.environment);
  if (!argument.config.empty()) text += fmt::format(" [configuration: {}]", argument.config);
  return text;
}

// Appends `text`, its words wrapped, to `out`, which is at column `column`; later lines are
// indented to `indent`.
void AppendWrapped(std::string& out, size_t column, size_t indent, std::string_view text) {
  bool first = true;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    if (!first && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += '\n';
}

struct Row {
  std::string left;
  std::string right;
};

// Two columns, the right one wrapped.
void AppendRows(std::string& out, std::string_view title, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  constexpr size_t kMostLeft = 28;
  size_t left = 0;
  for (const Row& row : rows) {
    if (row.left.size() <= kMostLeft) left = std::max(left, row.left.size());
  }
  const size_t indent = 2 + left + 2;
  out += fmt::format("\n{}:\n", title);
  for (const Row& row : rows) {
    out += fmt::format("  {}", row.left);
    size_t column = 2 + row.left.size();
    if (row.left.size() > left) {
      out += '\n';
      column = 0;
    }
    out.append(indent - column, ' ');
    AppendWrapped(out, indent, indent, row.right);
  }
}

// Paragraphs are separated by empty lines; lines that start with a space are kept as they are.
void AppendParagraphs(std::string& out, std::string_view text) {
  std::string paragraph;
  const auto flush = [&] {
    if (!paragraph.empty()) AppendWrapped(out, 0, 0, paragraph);
    paragraph.clear();
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == ' ') {
      flush();
      out += fmt::format("{}\n", line);
    } else {
      if (!paragraph.empty()) paragraph += ' ';
      paragraph += line;
    }
  }
  flush();
}

void AppendExamples(std::string& out, std::string_view examples) {
  out += "\nExample:\n";
  while (!examples.empty()) {
    const size_t end = examples.find('\n');
    out += fmt::format("  {}\n", examples.substr(0, end));
    examples.remove_prefix(end == std::string_view::npos ? examples.size() : end + 1);
  }
}

std::vector<Row> ExitCodeRows() {
  std::vector<Row> rows;
  for (const auto& [code, meaning] : kExitCodes) {
    rows.push_back({fmt::format("{}", static_cast<int>(code)), std::string(meaning)});
  }
  return rows;
}

}  // namespace

std::string ProgramHelp(const std::vector<std::unique_ptr<Verb>>& verbs) {
  std::string out =
      "lcab-client: measures attention kernels and context-parallel strategies, here or on a "
      "coordinator.\n\nUsage: lcab-client VERB [OPTIONS]\n       lcab-client VERB --help\n";
  std::vector<Row> rows;
  for (const auto& verb : verbs) {
    if (!verb->hidden()) rows.push_back({std::string(verb->name()), std::string(verb->summary())});
  }
  AppendRows(out, "Verbs", rows);
  AppendExamples(out, "lcab-client run quick\nlcab-client explain suites/quick.yaml");
  AppendRows(out, "Exit codes", ExitCodeRows());
  return out;
}

std::string VerbHelp(const Verb& verb, const std::vector<Argument>& arguments) {
  std::string usage = fmt::format("Usage: lcab-client {}", verb.name());
  std::vector<Row> positionals;
  std::vector<Row> options;
  for (const Argument& argument : arguments) {
    if (argument.form == Form::kPositional) {
      const bool many = std::holds_alternative<std::vector<std::string>*>(argument.target);
      const std::string spelling = Spelling(argument) + (many ? "..." : "");
      usage += argument.required ? fmt::format(" {}", spelling) : fmt::format(" [{}]", spelling);
      positionals.push_back({Spelling(argument), Explanation(argument)});
    } else {
      if (argument.required) usage += fmt::format(" {}", Spelling(argument));
      options.push_back({Spelling(argument), Explanation(argument)});
    }
  }
  options.push_back({"--help", "Print this and stop"});
  std::string out = fmt::format("{}\n\n{} [OPTIONS]\n", verb.summary(), usage);
  AppendRows(out, "Arguments", positionals);
  AppendRows(out, "Options", options);
  if (!verb.details().empty()) {
    out += '\n';
    AppendParagraphs(out, verb.details());
  }
  AppendExamples(out, verb.example());
  return out;
}

std::string ReferencePage(const std::vector<std::unique_ptr<Verb>>& verbs) {
  std::string out = fmt::format(
      "# lcab-client\n\n"
      "Printed by `lcab-client reference cli > docs/cli.md`; a test compares the two.\n\n"
      "An option comes from the command line, else from its environment variable, else from the\n"
      "configuration file: `$LCAB_CONFIG`, else `~/.config/lcab/config.yaml` (below\n"
      "`$XDG_CONFIG_HOME` where that is set), a YAML map from configuration keys to texts. Tables\n"
      "and results go to standard output; progress and errors go to standard error. Colours are\n"
      "for terminals only, and never where `NO_COLOR` is set.\n\n"
      "## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
  for (const auto& [code, meaning] : kExitCodes) {
    out += fmt::format("| {} | {} |\n", static_cast<int>(code), meaning);
  }
  out += fmt::format("\n## lcab-client\n\n```text\n{}```\n", ProgramHelp(verbs));
  for (const auto& verb : verbs) {
    if (verb->hidden()) continue;
    out += fmt::format("\n## {}\n\n```text\n{}```\n", verb->name(),
                       VerbHelp(*verb, verb->Arguments()));
  }
  return out;
}

}  // namespace lcab::client
