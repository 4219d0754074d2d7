#include "suites/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "suites/yaml_text.h"

namespace lcab::suites {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr int kDeepest = 24;
constexpr int kMostNodes = 200'000;
constexpr size_t kMostCopied = size_t{8} << 20;

Location At(const YAML::Mark& mark) {
  if (mark.line < 0) return {};
  return {.line = mark.line + 1, .column = mark.column + 1};
}

// Copies what yaml-cpp read into a tree, and stops at the first thing that no suite may hold.
class Reader {
 public:
  Reader(std::string_view text, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {}

  std::optional<Tree> Read(const YAML::Node& node, int depth) {
    const Location where = At(node.Mark());
    // Aliases make a graph of the document: small texts can stand for huge or endless trees.
    if (++nodes_ > kMostNodes) {
      return Refuse(
          where, fmt::format("the document has more than {} values, aliases followed", kMostNodes));
    }
    if (depth > kDeepest) {
      return Refuse(where, fmt::format("nested deeper than {} levels", kDeepest));
    }
    const std::string& tag = node.Tag();
    if (!tag.empty() && tag != "?" && tag != "!") {
      return Refuse(where, fmt::format("suites use no tags; remove {}", Quote(tag)));
    }
    Tree tree{.where = where};
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return tree;
      case YAML::NodeType::Scalar:
        if (!IsWell(node, where)) return std::nullopt;
        tree.kind = Tree::Kind::kScalar;
        tree.text = node.Scalar();
        tree.quoted = tag == "!";
        return tree;
      case YAML::NodeType::Sequence:
        return ReadList(node, std::move(tree), depth);
      case YAML::NodeType::Map:
        return ReadMap(node, std::move(tree), depth);
    }
    return Refuse(where, "a kind of YAML that suites do not use");
  }

 private:
  std::optional<Tree> Refuse(Location where, std::string_view message) {
    diagnostics_.Add(where, message);
    return std::nullopt;
  }

  // Of a scalar, as a value or as a key. Long texts that many aliases stand for would fill the
  // memory; a quote that nobody closes takes the rest of the file, which then seems to be missing.
  bool IsWell(const YAML::Node& scalar, Location where) {
    copied_ += scalar.Scalar().size();
    if (copied_ > kMostCopied) {
      diagnostics_.Add(
          where, fmt::format("the document has more than {} bytes, aliases followed", kMostCopied));
      return false;
    }
    const int offset = scalar.Mark().pos;
    if (offset >= 0 && scalar.Tag() == "!" && IsUnclosedQuote(text_, static_cast<size_t>(offset))) {
      diagnostics_.Add(where, "a text in quotes is not closed; add the quote at its end");
      return false;
    }
    return true;
  }

  std::optional<Tree> ReadList(const YAML::Node& node, Tree tree, int depth) {
    tree.kind = Tree::Kind::kList;
    for (const auto& element : node) {
      std::optional<Tree> one = Read(element, depth + 1);
      if (!one.has_value()) return std::nullopt;
      tree.list.push_back(*std::move(one));
    }
    return tree;
  }

  std::optional<Tree> ReadMap(const YAML::Node& node, Tree tree, int depth) {
    tree.kind = Tree::Kind::kMap;
    std::map<std::string, Location> seen;
    for (const auto& pair : node) {
      const Location where = At(pair.first.Mark());
      if (!pair.first.IsScalar()) return Refuse(where, "a key must be a text");
      if (!IsWell(pair.first, where)) return std::nullopt;
      const std::string& key = pair.first.Scalar();
      if (const auto [first, is_new] = seen.emplace(key, where); !is_new) {
        return Refuse(where, fmt::format("key {} is given twice; the first is in line {}",
                                         Quote(key), first->second.line));
      }
      std::optional<Tree> value = Read(pair.second, depth + 1);
      if (!value.has_value()) return std::nullopt;
      // An empty value has no place of its own.
      if (value->where.line == 0) value->where = where;
      tree.entries.push_back({.key = key, .where = where, .value = *std::move(value)});
    }
    return tree;
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  int nodes_ = 0;
  size_t copied_ = 0;  // bytes of scalars
};

}  // namespace

const Tree* Tree::Find(std::string_view key) const {
  for (const TreeEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string InWords(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::kNull:
      return "nothing";
    case Tree::Kind::kScalar:
      return Quote(tree.text);
    case Tree::Kind::kList:
      return "a list";
    case Tree::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

std::optional<Tree> ReadYaml(std::string_view text, Diagnostics& diagnostics) {
  if (text.size() > kMostBytes) {
    diagnostics.Add(
        {}, fmt::format("a suite has at most {} bytes, this text has {}", kMostBytes, text.size()));
    return std::nullopt;
  }
  text = WithoutByteOrderMark(text);
  CheckCharacters(text, diagnostics);
  if (!diagnostics.empty()) return std::nullopt;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) {
      diagnostics.Add({}, "the suite is empty; start with `name: my_suite`");
      return std::nullopt;
    }
    if (documents.size() > 1) {
      diagnostics.Add(
          At(documents[1].Mark()),
          "a second document starts here; a file holds one suite, without `---` inside");
      return std::nullopt;
    }
    return Reader(text, diagnostics).Read(documents.front(), 0);
  } catch (const YAML::DeepRecursion& exception) {
    diagnostics.Add(At(exception.mark), fmt::format("nested deeper than {} levels", kDeepest));
    return std::nullopt;
  } catch (const YAML::Exception& exception) {
    const Location where = At(exception.mark);
    diagnostics.Add(where, WhyNotYaml(text, where, exception.msg));
    return std::nullopt;
  }
}

}  // namespace lcab::suites
