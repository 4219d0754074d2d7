// Any mask that can be written as a list of slices.

#include <array>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "attention/mask_families.h"
#include "fmt/format.h"

namespace lcab {
namespace {

struct NamedKind {
  std::string_view name;
  SliceKind kind;
};
constexpr std::array<NamedKind, 4> kKinds = {{{"full", SliceKind::kFull},
                                              {"causal", SliceKind::kCausal},
                                              {"inv_causal", SliceKind::kInvCausal},
                                              {"bi_causal", SliceKind::kBiCausal}}};

absl::Status Malformed(const Value& value) {
  std::vector<std::string_view> names;
  for (const NamedKind& kind : kKinds) names.push_back(kind.name);
  return absl::InvalidArgumentError(
      fmt::format("'slices' holds {}; each entry must be [q0, q1, k0, k1, kind] with four integers "
                  "and one of {}",
                  ValueText(value), fmt::join(names, ", ")));
}

absl::StatusOr<Slice> ReadSlice(const Value& value) {
  const auto* list = std::get_if<Value::List>(&value.data);
  if (list == nullptr || list->size() != 5) return Malformed(value);
  std::array<int64_t, 4> at{};
  for (size_t i = 0; i < at.size(); ++i) {
    const auto* number = std::get_if<int64_t>(&(*list)[i].data);
    if (number == nullptr) return Malformed(value);
    at[i] = *number;
  }
  const auto* text = std::get_if<std::string>(&(*list)[4].data);
  for (const NamedKind& named : kKinds) {
    if (text != nullptr && named.name == *text)
      return Slice{at[0], at[1], at[2], at[3], named.kind};
  }
  return Malformed(value);
}

absl::StatusOr<Mask> MakeSlices(const MaskContext& context, const Options& options) {
  std::vector<Slice> slices;
  for (const Value& value : GetList(options, "slices")) {
    absl::StatusOr<Slice> slice = ReadSlice(value);
    if (!slice.ok()) return slice.status();
    if (slice->q0 < 0 || slice->q1 > context.q_tokens || slice->k0 < 0 ||
        slice->k1 > context.k_tokens) {
      return absl::InvalidArgumentError(
          fmt::format("slice {} reaches beyond the {} queries and {} keys", ValueText(value),
                      context.q_tokens, context.k_tokens));
    }
    slices.push_back(*slice);
  }
  return Mask::FromSlices(context.q_tokens, context.k_tokens, slices);
}

}  // namespace

std::vector<MaskType> SliceMaskTypes() {
  return {{"slices",
           "the pairs of the given slices, which must not overlap",
           {{"slices",
             ParameterKind::kList,
             {},
             "a list of [q0, q1, k0, k1, kind]; kinds: full, causal, inv_causal, bi_causal",
             {},
             {},
             {}}},
           false,
           MakeSlices}};
}

}  // namespace lcab
