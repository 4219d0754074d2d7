#include "suites/components.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "suites/axes.h"
#include "suites/scalars.h"

namespace lcab::suites {
namespace {

constexpr int64_t kMostDraws = 1'000;

const Parameter* FindParameter(const ComponentType& type, std::string_view name) {
  for (const Parameter& parameter : type.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

// An element of a list parameter, typed by how it looks: suites write [0, 160, 0, 96, causal].
Value ReadElement(const Tree& tree) {
  if (tree.kind == Tree::Kind::kList) {
    Value::List list;
    for (const Tree& element : tree.list) list.push_back(ReadElement(element));
    return Value{std::move(list)};
  }
  if (!tree.quoted) {
    if (const auto value = ParseSize(tree.text)) return Value{*value};
    if (const auto value = ParseReal(tree.text)) return Value{*value};
    if (const auto value = ParseBool(tree.text)) return Value{*value};
  }
  return Value{tree.text};
}

bool HoldsOnlyScalars(const Tree& tree) {
  if (tree.kind != Tree::Kind::kList) return tree.kind == Tree::Kind::kScalar;
  for (const Tree& element : tree.list) {
    if (!HoldsOnlyScalars(element)) return false;
  }
  return true;
}

// The text of a scalar as a value of the declared kind; nothing where it is none.
std::optional<Value> ReadScalar(const Tree& tree, ParameterKind kind) {
  if (kind == ParameterKind::kText) return Value{tree.text};
  if (tree.quoted) return std::nullopt;
  switch (kind) {
    case ParameterKind::kBool:
      if (const auto value = ParseBool(tree.text)) return Value{*value};
      break;
    case ParameterKind::kInteger:
      if (const auto value = ParseSize(tree.text)) return Value{*value};
      break;
    case ParameterKind::kReal:
      if (const auto value = ParseReal(tree.text)) return Value{*value};
      break;
    case ParameterKind::kText:
    case ParameterKind::kList:
      break;
  }
  return std::nullopt;
}

std::string_view FormOf(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kBool:
      return kBoolForm;
    case ParameterKind::kInteger:
      return kSizeForm;
    case ParameterKind::kReal:
      return kRealForm;
    case ParameterKind::kText:
      return "a text";
    case ParameterKind::kList:
      return "a list";
  }
  return "a value";
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

std::optional<Value> ReadValue(const Tree& tree, const Parameter& parameter,
                               const ComponentKind& kind, Diagnostics& diagnostics) {
  if (parameter.kind == ParameterKind::kList) {
    if (tree.kind == Tree::Kind::kList && HoldsOnlyScalars(tree)) return ReadElement(tree);
    if (tree.kind == Tree::Kind::kScalar && kind.read_file) {
      absl::StatusOr<Value> value = kind.read_file(parameter.name, tree.text);
      if (value.ok()) return *std::move(value);
      diagnostics.Add(tree.where, MessageOf(value.status()));
      return std::nullopt;
    }
  } else if (tree.kind == Tree::Kind::kScalar) {
    if (std::optional<Value> value = ReadScalar(tree, parameter.kind)) return value;
  }
  diagnostics.Add(tree.where, fmt::format("{} is {}{}; it must be {} ({})", parameter.name,
                                          InWords(tree), tree.quoted ? " in quotes" : "",
                                          FormOf(parameter.kind), parameter.description));
  return std::nullopt;
}

// One map without axes: name, draws and parameters.
class ComponentReader {
 public:
  ComponentReader(const ComponentKind& kind, Diagnostics& diagnostics)
      : kind_(kind), diagnostics_(diagnostics) {}

  std::optional<Located<Choice>> Read(const Tree& tree) {
    const Tree* name = tree.kind == Tree::Kind::kScalar ? &tree : tree.Find("name");
    if (name == nullptr || name->kind != Tree::Kind::kScalar) {
      diagnostics_.Add(tree.where,
                       fmt::format("a {0} is a name, or a map with a name as {{name: {1}}}",
                                   kind_.word, kind_.names.empty() ? "..." : kind_.names.front()));
      return std::nullopt;
    }
    const std::optional<ComponentType> type = kind_.find(name->text);
    if (!type.has_value()) {
      diagnostics_.Add(name->where, UnknownName(kind_.word, name->text, kind_.names) + kind_.note);
      return std::nullopt;
    }
    complete_ = true;
    Choice choice{.name = name->text};
    for (const TreeEntry& entry : tree.entries) ReadEntry(entry, *type, choice);
    if (!complete_) return std::nullopt;
    // Each parameter has passed alone; what may be wrong still is that one is missing.
    absl::StatusOr<Options> resolved =
        ResolveOptions(choice.name, choice.options, type->parameters);
    if (!resolved.ok()) {
      diagnostics_.Add(tree.where, MessageOf(resolved.status()));
      return std::nullopt;
    }
    choice.options = *std::move(resolved);
    return Located<Choice>{.value = std::move(choice), .where = tree.where};
  }

 private:
  void ReadEntry(const TreeEntry& entry, const ComponentType& type, Choice& choice) {
    if (entry.key == "name") return;
    const Parameter* parameter = FindParameter(type, entry.key);
    if (parameter == nullptr && entry.key == "draws") {
      return ReadDraws(entry, type, choice, 1,
                       "how many random masks are drawn, each a trial of its own", &choice.draws);
    }
    if (parameter == nullptr && entry.key == "draw") {
      return ReadDraws(entry, type, choice, 0,
                       "the number of the first random mask to draw, from 0", &choice.first_draw);
    }
    if (parameter == nullptr) {
      std::vector<std::string> keys;
      for (const Parameter& declared : type.parameters) keys.push_back(declared.name);
      if (type.random) keys.insert(keys.end(), {"draws", "draw"});
      return Refuse(
          entry.where,
          UnknownName(fmt::format("parameter of {} {}", kind_.word, choice.name), entry.key, keys));
    }
    std::optional<Value> value = ReadValue(entry.value, *parameter, kind_, diagnostics_);
    if (!value.has_value()) {
      complete_ = false;
      return;
    }
    const Options one = {{entry.key, *value}};
    if (auto status = ResolveOptions(choice.name, one, {*parameter}).status(); !status.ok()) {
      return Refuse(entry.value.where, MessageOf(status));
    }
    choice.options.emplace(entry.key, *std::move(value));
  }

  // `draws` or `draw`, of random masks only.
  void ReadDraws(const TreeEntry& entry, const ComponentType& type, const Choice& choice,
                 int64_t minimum, std::string_view meaning, int64_t* to) {
    if (!type.random) {
      return Refuse(entry.where, fmt::format("{} {} is not random: remove '{}'", kind_.word,
                                             choice.name, entry.key));
    }
    const std::optional<int64_t> number =
        entry.value.kind == Tree::Kind::kScalar && !entry.value.quoted ? ParseSize(entry.value.text)
                                                                       : std::nullopt;
    if (!number.has_value() || *number < minimum || *number > kMostDraws) {
      return Refuse(entry.value.where,
                    fmt::format("{} is {}; it must be from {} to {}: {}", entry.key,
                                InWords(entry.value), minimum, kMostDraws, meaning));
    }
    *to = *number;
  }

  void Refuse(Location where, std::string_view message) {
    diagnostics_.Add(where, message);
    complete_ = false;
  }

  const ComponentKind& kind_;
  Diagnostics& diagnostics_;
  bool complete_ = true;
};

// A list that some component of this name takes as a value is not an axis.
bool TakesList(const Tree& map, std::string_view key, const ComponentKind& kind) {
  const Tree* name = map.Find("name");
  if (name == nullptr || name->kind != Tree::Kind::kScalar) return false;
  const std::optional<ComponentType> type = kind.find(name->text);
  if (!type.has_value()) return false;
  const Parameter* parameter = FindParameter(*type, key);
  return parameter != nullptr && parameter->kind == ParameterKind::kList;
}

// `{name: [a, b], x: 1}` as `{name: a, x: 1}` and `{name: b, x: 1}`, so that each map's parameters
// are those of one component.
std::vector<Tree> ByName(const Tree& tree, Diagnostics& diagnostics) {
  const Tree* name = tree.Find("name");
  if (tree.kind != Tree::Kind::kMap || name == nullptr) return {tree};
  std::vector<Tree> names = Alternatives(*name, diagnostics);
  if (names.size() * CountNodes(tree) > kMostCopied) {
    diagnostics.Add(tree.where, fmt::format("its names and parameters hold more than {} values "
                                            "together; shorten the lists, or split it up",
                                            kMostCopied));
    return {};
  }
  std::vector<Tree> result;
  for (Tree& one : names) {
    result.push_back(tree);
    for (TreeEntry& entry : result.back().entries) {
      if (entry.key == "name") entry.value = one;
    }
  }
  return result;
}

}  // namespace

Axis<Choice> ReadComponents(const Tree& tree, const ComponentKind& kind, Diagnostics& diagnostics) {
  Axis<Choice> axis;
  const auto is_value = [&](const Tree& map, std::string_view key) {
    return TakesList(map, key, kind);
  };
  Tree named = tree;
  if (tree.kind == Tree::Kind::kMap) {
    named = {.kind = Tree::Kind::kList, .where = tree.where, .list = ByName(tree, diagnostics)};
    if (named.list.empty()) return axis;
  } else if (tree.kind == Tree::Kind::kList) {
    named.list.clear();
    for (const Tree& element : tree.list) {
      for (Tree& one : ByName(element, diagnostics)) named.list.push_back(std::move(one));
    }
    if (named.list.empty() && !tree.list.empty()) return axis;
  }
  ComponentReader reader(kind, diagnostics);
  for (const Tree& one : Alternatives(named, is_value, diagnostics)) {
    if (auto choice = reader.Read(one)) axis.push_back(*std::move(choice));
  }
  return axis;
}

}  // namespace lcab::suites
