#include "suites/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "suites/scalars.h"

namespace lcab::suites {

Fields::Fields(const Tree& map, std::string_view what, const std::vector<std::string>& known,
               Diagnostics& diagnostics)
    : map_(map), what_(what), diagnostics_(diagnostics) {
  if (map.kind != Tree::Kind::kMap) {
    diagnostics.Add(map.where, fmt::format("{} is a map with the keys {}; this is {}", what,
                                           fmt::join(known, ", "), InWords(map)));
    return;
  }
  for (const TreeEntry& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    diagnostics.Add(entry.where, UnknownName(fmt::format("key of {}", what), entry.key, known));
  }
}

const Tree* Fields::Require(std::string_view key) {
  const Tree* tree = Find(key);
  if (tree == nullptr && map_.kind == Tree::Kind::kMap) {
    diagnostics_.Add(map_.where, fmt::format("{} needs the key '{}'", what_, key));
  }
  return tree;
}

Location Fields::Where(std::string_view key) const {
  const Tree* tree = Find(key);
  return tree == nullptr ? map_.where : tree->where;
}

const Tree* Fields::Scalar(std::string_view key, std::string_view form, bool quoted_is_well) {
  const Tree* tree = Find(key);
  if (tree == nullptr) return nullptr;
  if (tree->kind != Tree::Kind::kScalar) {
    diagnostics_.Add(tree->where,
                     fmt::format("{} must be {}; this is {}", key, form, InWords(*tree)));
    return nullptr;
  }
  if (tree->quoted && !quoted_is_well) {
    diagnostics_.Add(tree->where, fmt::format("{} must be {}; remove the quotes around {}", key,
                                              form, InWords(*tree)));
    return nullptr;
  }
  return tree;
}

void Fields::Refuse(std::string_view key, std::string_view form) {
  const Tree& tree = *Find(key);
  diagnostics_.Add(tree.where, fmt::format("{} is {}; it must be {}", key, InWords(tree), form));
}

void Fields::Read(std::string_view key, int64_t minimum, int64_t maximum, int64_t* to) {
  const Tree* tree = Scalar(key, kSizeForm, /*quoted_is_well=*/false);
  if (tree == nullptr) return;
  const std::optional<int64_t> value = ParseSize(tree->text);
  if (!value.has_value()) return Refuse(key, kSizeForm);
  if (*value < minimum || *value > maximum) {
    return Refuse(key, fmt::format("from {} to {}", minimum, maximum));
  }
  *to = *value;
}

void Fields::Read(std::string_view key, double minimum, double maximum, double* to) {
  const Tree* tree = Scalar(key, kRealForm, /*quoted_is_well=*/false);
  if (tree == nullptr) return;
  const std::optional<double> value = ParseReal(tree->text);
  if (!value.has_value()) return Refuse(key, kRealForm);
  if (*value < minimum || *value > maximum) {
    return Refuse(key, fmt::format("from {} to {}", minimum, maximum));
  }
  *to = *value;
}

void Fields::Read(std::string_view key, absl::Duration minimum, absl::Duration maximum,
                  absl::Duration* to) {
  const Tree* tree = Scalar(key, kDurationForm, /*quoted_is_well=*/false);
  if (tree == nullptr) return;
  const std::optional<absl::Duration> value = ParseDuration(tree->text);
  if (!value.has_value()) return Refuse(key, kDurationForm);
  if (*value < minimum || *value > maximum) {
    return Refuse(key, fmt::format("from {} to {}", absl::FormatDuration(minimum),
                                   absl::FormatDuration(maximum)));
  }
  *to = *value;
}

void Fields::Read(std::string_view key, bool* to) {
  const Tree* tree = Scalar(key, kBoolForm, /*quoted_is_well=*/false);
  if (tree == nullptr) return;
  const std::optional<bool> value = ParseBool(tree->text);
  if (!value.has_value()) return Refuse(key, kBoolForm);
  *to = *value;
}

void Fields::Read(std::string_view key, std::string* to) {
  const Tree* tree = Scalar(key, "a text", /*quoted_is_well=*/true);
  if (tree != nullptr) *to = tree->text;
}

void Fields::Read(std::string_view key, const std::vector<std::string>& choices, std::string* to) {
  const std::string form = fmt::format("{}", fmt::join(choices, " or "));
  const Tree* tree = Scalar(key, form, /*quoted_is_well=*/true);
  if (tree == nullptr) return;
  if (std::find(choices.begin(), choices.end(), tree->text) == choices.end()) {
    diagnostics_.Add(tree->where, UnknownName(key, tree->text, choices));
    return;
  }
  *to = tree->text;
}

}  // namespace lcab::suites
