// YAML as suites use it: maps, lists and scalars with their places, read strictly and within bounds
// whatever the text is.

#ifndef LCAB_SUITES_YAML_TREE_H_
#define LCAB_SUITES_YAML_TREE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suites/diagnostics.h"

namespace lcab::suites {

struct TreeEntry;

struct Tree {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  Location where;
  std::string text;     // of a scalar
  bool quoted = false;  // a scalar in quotes, or a block of text: never a number
  std::vector<Tree> list;
  std::vector<TreeEntry> entries;  // of a map, in the order of the file

  // nullptr where a map has no such key.
  const Tree* Find(std::string_view key) const;
};

struct TreeEntry {
  std::string key;
  Location where;
  Tree value;
};

// "a list", "a map", "'text'", "nothing": a tree in a message.
std::string InWords(const Tree& tree);

// The one document in `text`. Nothing, with findings, for what is not YAML, what is no text in
// UTF-8, several documents, duplicate keys, tags, keys that are not plain texts, quotes without an
// end, nesting deeper than 24, more than 1 MiB of text, and more than 200,000 nodes or 8 MiB of
// scalars once aliases are followed.
std::optional<Tree> ReadYaml(std::string_view text, Diagnostics& diagnostics);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_YAML_TREE_H_
