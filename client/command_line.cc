// The only file that includes CLI11: it takes seconds to compile.

#include "client/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "attention/parameters.h"
#include "client/config.h"
#include "client/help.h"
#include "suites/diagnostics.h"
#include "suites/scalars.h"

namespace lcab::client {
namespace {

// A verb in CLI11's terms.
struct Declared {
  Verb* verb = nullptr;
  std::vector<Argument> arguments;
  CLI::App* app = nullptr;
  std::vector<CLI::Option*> options;  // one an argument
};

CLI::Option* AddDuration(CLI::App& app, const std::string& spelling, absl::Duration* target) {
  return app.add_option_function<std::string>(
      spelling, [target, spelling](const std::string& text) {
        if (!absl::ParseDuration(text, target)) {
          throw CLI::ValidationError(
              spelling, fmt::format("'{}' is not a duration; write 500ms, 30s or 5m", text));
        }
      });
}

CLI::Option* AddInteger(CLI::App& app, const std::string& spelling,
                        std::function<void(int64_t)> set) {
  return app.add_option_function<std::string>(
      spelling, [set = std::move(set), spelling](const std::string& text) {
        int64_t value = 0;
        // Tables print 4K tokens and suites take them so.
        if (const std::optional<int64_t> size = suites::ParseSize(text); size.has_value()) {
          value = *size;
        } else if (!absl::SimpleAtoi(text, &value)) {
          throw CLI::ValidationError(spelling,
                                     fmt::format("{} is not a whole number", suites::Quote(text)));
        }
        set(value);
      });
}

CLI::Option* Add(CLI::App& app, const Argument& argument) {
  const bool positional = argument.form == Form::kPositional;
  const std::string spelling = positional ? argument.name : "--" + argument.name;
  CLI::Option* option = std::visit(
      [&](auto* target) -> CLI::Option* {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool>) {
          return app.add_flag(spelling, *target);
        } else if constexpr (std::is_same_v<T, absl::Duration>) {
          return AddDuration(app, spelling, target);
        } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
          return app.add_option_function<std::string>(
              spelling, [target](const std::string& text) { *target = text; });
        } else if constexpr (std::is_same_v<T, std::optional<int64_t>>) {
          return AddInteger(app, spelling, [target](int64_t value) { *target = value; });
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return AddInteger(app, spelling, [target](int64_t value) { *target = value; });
        } else {
          return app.add_option(spelling, *target);
        }
      },
      argument.target);
  if (argument.required) option->required();
  if (!argument.choices.empty()) {
    option->check([choices = argument.choices](const std::string& text) {
      return absl::c_linear_search(choices, text) ? std::string()
                                                  : suites::UnknownName("choice", text, choices);
    });
  }
  if (!argument.environment.empty()) option->envname(argument.environment);
  return option;
}

// What the command line and the environment left open comes from the configuration file.
absl::Status ApplyConfig(const Declared& declared, const std::vector<std::string>& known) {
  std::vector<std::pair<std::string, std::string*>> open;
  for (size_t i = 0; i < declared.arguments.size(); ++i) {
    const Argument& argument = declared.arguments[i];
    if (argument.config.empty() || declared.options[i]->count() > 0) continue;
    open.emplace_back(argument.config, std::get<std::string*>(argument.target));
  }
  if (open.empty()) return absl::OkStatus();
  auto values = ReadConfig(ConfigPath(), known);
  if (!values.ok()) return values.status();
  for (const auto& [key, target] : open) {
    if (const auto found = values->find(key); found != values->end()) *target = found->second;
  }
  return absl::OkStatus();
}

// What to say of a first word that is no verb; empty where it is one, or asks for help.
std::string UnknownVerb(const std::string& word, const std::vector<std::unique_ptr<Verb>>& verbs) {
  if (word == "-h" || word == "--help") return {};
  if (!word.empty() && word.front() == '-') {
    return fmt::format("a verb comes first, before options such as {}\nSee: lcab-client --help",
                       suites::Quote(word));
  }
  std::vector<std::string> names;
  for (const auto& verb : verbs) {
    if (verb->name() == word) return {};
    if (!verb->hidden()) names.emplace_back(verb->name());
  }
  return suites::UnknownName("verb", word, names) + "\nSee: lcab-client --help";
}

// The same for an option of a verb that CLI11 did not expect; empty where none is near.
std::string NearOption(const std::vector<std::string>& unexpected, const Declared& declared) {
  std::vector<std::string> names = {"--help"};
  for (const Argument& argument : declared.arguments) {
    if (argument.form == Form::kOption) names.push_back("--" + argument.name);
  }
  for (const std::string& word : unexpected) {
    const std::string near = NearestName(word.substr(0, word.find('=')), names);
    if (!near.empty()) return fmt::format("\nDid you mean '{}'?", near);
  }
  return {};
}

// What a number out of range, or the argument's own check, has to say; empty where all is well.
std::string WhatIsWrong(const Argument& argument) {
  const std::string name = argument.form == Form::kOption ? "--" + argument.name : argument.value;
  std::optional<int64_t> number;
  if (auto* const* target = std::get_if<int64_t*>(&argument.target)) number = **target;
  if (auto* const* target = std::get_if<std::optional<int64_t>*>(&argument.target)) {
    number = **target;
  }
  if (number.has_value() && argument.minimum.has_value() && *number < *argument.minimum) {
    return fmt::format("{} is {}; it must be {} or more", name, *number, *argument.minimum);
  }
  if (number.has_value() && argument.maximum.has_value() && *number > *argument.maximum) {
    return fmt::format("{} is {}; it must be {} or less", name, *number, *argument.maximum);
  }
  if (!argument.check) return {};
  const absl::Status status = argument.check();
  return status.ok() ? std::string() : fmt::format("{}: {}", name, std::string(status.message()));
}

ExitCode RunVerb(const Declared& declared, const std::vector<std::string>& config_keys,
                 Console& console) {
  if (absl::Status status = ApplyConfig(declared, config_keys); !status.ok()) {
    return Fail(console, status);
  }
  for (const Argument& argument : declared.arguments) {
    if (const std::string wrong = WhatIsWrong(argument); !wrong.empty()) {
      return Fail(console, ExitCode::kUsage,
                  fmt::format("{}\nSee: lcab-client {} --help", wrong, declared.verb->name()));
    }
  }
  return declared.verb->Run(console);
}

}  // namespace

ExitCode RunCommandLine(const std::vector<std::string>& words,
                        const std::vector<std::unique_ptr<Verb>>& verbs, Console& console) {
  CLI::App app;
  app.require_subcommand(1);
  std::vector<Declared> declared;
  std::vector<std::string> config_keys;
  for (const auto& verb : verbs) {
    Declared one{.verb = verb.get(), .arguments = verb->Arguments()};
    one.app = app.add_subcommand(std::string(verb->name()));
    for (const Argument& argument : one.arguments) {
      one.options.push_back(Add(*one.app, argument));
      if (!argument.config.empty()) config_keys.push_back(argument.config);
    }
    declared.push_back(std::move(one));
  }
  std::sort(config_keys.begin(), config_keys.end());
  config_keys.erase(std::unique(config_keys.begin(), config_keys.end()), config_keys.end());

  if (words.size() < 2) {
    return Fail(console, ExitCode::kUsage, "a verb is missing\n\n" + ProgramHelp(verbs));
  }
  if (const std::string unknown = UnknownVerb(words[1], verbs); !unknown.empty()) {
    return Fail(console, ExitCode::kUsage, unknown);
  }
  const auto chosen = [&]() -> const Declared* {
    for (const Declared& one : declared) {
      if (one.app->parsed()) return &one;
    }
    return nullptr;
  };
  try {
    // CLI11 takes the words from the last to the first, without the program.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend() - 1));
  } catch (const CLI::CallForHelp&) {
    const Declared* one = chosen();
    console.out << (one == nullptr ? ProgramHelp(verbs) : VerbHelp(*one->verb, one->arguments));
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    const Declared* one = chosen();
    if (one == nullptr) {
      return Fail(console, ExitCode::kUsage,
                  fmt::format("{}\nSee: lcab-client --help", error.what()));
    }
    return Fail(console, ExitCode::kUsage,
                fmt::format("{}{}\nSee: lcab-client {} --help", error.what(),
                            NearOption(one->app->remaining(), *one), one->verb->name()));
  }
  return RunVerb(*chosen(), config_keys, console);
}

}  // namespace lcab::client
