// `lcab-client completion`: what a shell offers after a press of Tab, from the table of verbs.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/verb.h"
#include "client/verbs.h"

namespace lcab::client {
namespace {

// What follows a verb: its options, and the choices of what it takes.
struct Words {
  std::string verb;
  std::string summary;
  std::vector<std::string> options;
  std::vector<std::string> choices;  // of positionals
  bool files = false;                // a positional may be a file
  std::vector<std::pair<std::string, std::vector<std::string>>> values;  // choices by option
};

std::vector<Words> AllWords() {
  std::vector<Words> all;
  for (const auto& verb : MakeVerbs()) {
    if (verb->hidden()) continue;
    Words words{.verb = std::string(verb->name()), .summary = std::string(verb->summary())};
    for (const Argument& argument : verb->Arguments()) {
      if (argument.form == Form::kPositional) {
        words.choices.insert(words.choices.end(), argument.choices.begin(), argument.choices.end());
        words.files = words.files || argument.choices.empty();
        continue;
      }
      words.options.push_back("--" + argument.name);
      if (!argument.choices.empty()) {
        words.values.emplace_back("--" + argument.name, argument.choices);
      }
    }
    words.options.emplace_back("--help");
    all.push_back(std::move(words));
  }
  return all;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string Bash(const std::vector<Words>& all) {
  std::string verbs;
  std::string cases;
  for (const Words& words : all) {
    verbs += (verbs.empty() ? "" : " ") + words.verb;
    cases += fmt::format("    {})\n", words.verb);
    for (const auto& [option, choices] : words.values) {
      cases += fmt::format(
          "      if [[ $previous == {} ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\")); "
          "return; fi\n",
          option, fmt::join(choices, " "));
    }
    cases += fmt::format("      COMPREPLY=($(compgen -W '{}' -- \"$word\"){})\n      ;;\n",
                         words.choices.empty() ? fmt::format("{}", fmt::join(words.options, " "))
                                               : fmt::format("{} {}", fmt::join(words.choices, " "),
                                                             fmt::join(words.options, " ")),
                         words.files ? " $(compgen -f -- \"$word\")" : "");
  }
  return fmt::format(
      "# bash: source <(lcab-client completion bash)\n"
      "_lcab_client() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}  esac\n"
      "}}\n"
      "complete -o filenames -F _lcab_client lcab-client\n",
      verbs, cases);
}

std::string Zsh(const std::vector<Words>& all) {
  std::string verbs;
  std::string cases;
  for (const Words& words : all) {
    verbs += fmt::format("    {}\n", Quoted(words.verb + ":" + words.summary));
    std::vector<std::string> offered = words.choices;
    offered.insert(offered.end(), words.options.begin(), words.options.end());
    cases += fmt::format("    {})\n", words.verb);
    for (const auto& [option, choices] : words.values) {
      cases += fmt::format("      [[ $words[CURRENT-1] == {} ]] && {{ compadd -- {}; return; }}\n",
                           option, fmt::join(choices, " "));
    }
    cases += fmt::format("      compadd -- {}\n{}      ;;\n", fmt::join(offered, " "),
                         words.files ? "      _files\n" : "");
  }
  return fmt::format(
      "#compdef lcab-client\n"
      "# zsh: lcab-client completion zsh > \"${{fpath[1]}}/_lcab-client\"\n"
      "_lcab_client() {{\n"
      "  local -a verbs=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe verb verbs\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n{}  esac\n"
      "}}\n"
      "compdef _lcab_client lcab-client\n",
      verbs, cases);
}

std::string Fish(const std::vector<Words>& all) {
  std::string text =
      "# fish: lcab-client completion fish > ~/.config/fish/completions/lcab-client.fish\n";
  for (const Words& words : all) {
    text += fmt::format("complete -c lcab-client -f -n __fish_use_subcommand -a {} -d {}\n",
                        words.verb, Quoted(words.summary));
    const std::string condition = fmt::format("-n '__fish_seen_subcommand_from {}'", words.verb);
    if (words.files) text += fmt::format("complete -c lcab-client -F {}\n", condition);
    if (!words.choices.empty()) {
      text += fmt::format("complete -c lcab-client -f {} -a {}\n", condition,
                          Quoted(fmt::format("{}", fmt::join(words.choices, " "))));
    }
    for (const std::string& option : words.options) {
      std::string choices;
      for (const auto& [name, values] : words.values) {
        if (name == option) {
          choices = fmt::format(" -x -a {}", Quoted(fmt::format("{}", fmt::join(values, " "))));
        }
      }
      text +=
          fmt::format("complete -c lcab-client {} -l {}{}\n", condition, option.substr(2), choices);
    }
  }
  return text;
}

struct Shell {
  std::string_view name;
  std::string (*script)(const std::vector<Words>&);
};
constexpr Shell kShells[] = {{"bash", Bash}, {"zsh", Zsh}, {"fish", Fish}};

class CompletionVerb : public Verb {
 public:
  std::string_view name() const override { return "completion"; }
  std::string_view summary() const override {
    return "Print a script that completes verbs and options in a shell";
  }
  std::string_view example() const override {
    return "source <(lcab-client completion bash)\n"
           "lcab-client completion zsh > \"${fpath[1]}/_lcab-client\"\n"
           "lcab-client completion fish > ~/.config/fish/completions/lcab-client.fish";
  }
  std::vector<Argument> Arguments() override {
    std::vector<std::string> names;
    for (const Shell& shell : kShells) names.emplace_back(shell.name);
    return {{.name = "shell",
             .target = &shell_,
             .description = "the shell",
             .form = Form::kPositional,
             .required = true,
             .choices = std::move(names)}};
  }

  ExitCode Run(Console& console) override {
    for (const Shell& shell : kShells) {
      if (shell.name == shell_) console.out << shell.script(AllWords());
    }
    return ExitCode::kOk;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Verb> MakeCompletionVerb() { return std::make_unique<CompletionVerb>(); }

}  // namespace lcab::client
