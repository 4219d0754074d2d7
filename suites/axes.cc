#include "suites/axes.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace lcab::suites {
namespace {

constexpr size_t kMostAlternatives = 2'000;
// More than any map of a suite has keys; bounds what combinations cost.
constexpr size_t kMostKeys = 64;

std::vector<Tree> TooMany(const Tree& tree, Diagnostics& diagnostics) {
  diagnostics.Add(tree.where, fmt::format("stands for more than {} combinations; split it up",
                                          kMostAlternatives));
  return {};
}

std::vector<Tree> OfList(const Tree& tree, const IsValue& is_value, Diagnostics& diagnostics) {
  if (tree.list.empty()) {
    diagnostics.Add(tree.where,
                    "an empty list makes no trial; name at least one value, or remove the key "
                    "where it has a default");
    return {};
  }
  std::vector<Tree> result;
  for (const Tree& element : tree.list) {
    if (element.kind == Tree::Kind::kList) {
      diagnostics.Add(element.where, "a list within a list; an axis is one list");
      continue;
    }
    for (Tree& one : Alternatives(element, is_value, diagnostics)) {
      if (result.size() == kMostAlternatives) return TooMany(tree, diagnostics);
      result.push_back(std::move(one));
    }
  }
  return result;
}

std::vector<Tree> OfMap(const Tree& tree, const IsValue& is_value, Diagnostics& diagnostics) {
  if (tree.entries.size() > kMostKeys) {
    diagnostics.Add(tree.where, fmt::format("a map has at most {} keys", kMostKeys));
    return {};
  }
  std::vector<Tree> result = {Tree{.kind = Tree::Kind::kMap, .where = tree.where}};
  bool complete = true;
  for (const TreeEntry& entry : tree.entries) {
    std::vector<Tree> values = is_value(tree, entry.key)
                                   ? std::vector<Tree>{entry.value}
                                   : Alternatives(entry.value, is_value, diagnostics);
    if (values.empty()) complete = false;  // the finding is made; look for others
    if (!complete) continue;
    if (result.size() * values.size() > kMostAlternatives) return TooMany(tree, diagnostics);
    // Long lists that are values are in every combination.
    if (result.size() * values.size() * (CountNodes(result.front()) + CountNodes(values.front())) >
        kMostCopied) {
      diagnostics.Add(tree.where, fmt::format("its combinations hold more than {} values; shorten "
                                              "the lists that are values, or split it up",
                                              kMostCopied));
      return {};
    }
    std::vector<Tree> longer;
    for (const Tree& begun : result) {
      for (const Tree& value : values) {
        longer.push_back(begun);
        longer.back().entries.push_back({.key = entry.key, .where = entry.where, .value = value});
      }
    }
    result = std::move(longer);
  }
  return complete ? result : std::vector<Tree>();
}

}  // namespace

size_t CountNodes(const Tree& tree) {
  size_t nodes = 1;
  for (const Tree& element : tree.list) nodes += CountNodes(element);
  for (const TreeEntry& entry : tree.entries) nodes += CountNodes(entry.value);
  return nodes;
}

std::vector<Tree> Alternatives(const Tree& tree, const IsValue& is_value,
                               Diagnostics& diagnostics) {
  switch (tree.kind) {
    case Tree::Kind::kNull:
      diagnostics.Add(tree.where, "a value is missing");
      return {};
    case Tree::Kind::kScalar:
      return {tree};
    case Tree::Kind::kList:
      return OfList(tree, is_value, diagnostics);
    case Tree::Kind::kMap:
      return OfMap(tree, is_value, diagnostics);
  }
  return {};
}

std::vector<Tree> Alternatives(const Tree& tree, Diagnostics& diagnostics) {
  return Alternatives(
      tree, [](const Tree&, std::string_view) { return false; }, diagnostics);
}

}  // namespace lcab::suites
