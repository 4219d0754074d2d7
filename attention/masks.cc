// One table of all mask types, and the checks that they have in common.

#include "attention/masks.h"

#include <utility>

#include "absl/status/status.h"
#include "attention/mask_families.h"
#include "fmt/format.h"

namespace lcab {

absl::Status RequireSelfAttention(const MaskContext& context) {
  if (context.q_tokens == context.k_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("needs as many queries as keys, not {} and {}",
                                                context.q_tokens, context.k_tokens));
}

absl::StatusOr<Mask> MaskOfBands(const MaskContext& context, std::vector<Band> bands) {
  std::vector<HeadGroup> groups(1);
  groups.front().bands = std::move(bands);
  return Mask::Create(context.q_tokens, context.k_tokens, std::move(groups));
}

const std::vector<MaskType>& MaskTypes() {
  static const std::vector<MaskType> types = [] {
    std::vector<MaskType> all;
    for (auto family :
         {SequenceMaskTypes, DocumentMaskTypes, SliceMaskTypes, BlockSparseMaskTypes}) {
      for (MaskType& type : family()) all.push_back(std::move(type));
    }
    return all;
  }();
  return types;
}

const MaskType* FindMaskType(std::string_view name) {
  for (const MaskType& type : MaskTypes()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

absl::StatusOr<Mask> MakeMask(std::string_view name, const Options& given,
                              const MaskContext& context) {
  const MaskType* type = FindMaskType(name);
  if (type == nullptr) {
    std::vector<std::string> names;
    for (const MaskType& known : MaskTypes()) names.push_back(known.name);
    const std::string nearest = NearestName(name, names);
    return absl::NotFoundError(
        fmt::format("there is no mask '{}'{}; there are {}", name,
                    nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                    fmt::join(names, ", ")));
  }
  if (context.kv_heads < 1 || context.kv_heads >= int64_t{1} << 23) {
    return absl::InvalidArgumentError(
        fmt::format("mask '{}': kv_heads is {}, not in 1..2^23 - 1", name, context.kv_heads));
  }
  if (context.draw < 0 || context.draw > INT64_C(0xFFFFFFFF)) {
    return absl::InvalidArgumentError(
        fmt::format("mask '{}': draw is {}, not in 0..2^32 - 1", name, context.draw));
  }
  for (const int64_t tokens : {context.q_tokens, context.k_tokens}) {
    if (tokens < 0 || tokens > Mask::kMaxTokens) {
      return absl::InvalidArgumentError(
          fmt::format("mask '{}': {} tokens, not 0..{}", name, tokens, Mask::kMaxTokens));
    }
  }
  absl::StatusOr<Options> options = ResolveOptions(name, given, type->parameters);
  if (!options.ok()) return options.status();
  absl::StatusOr<Mask> mask = type->make(context, *options);
  if (!mask.ok()) {
    return absl::Status(mask.status().code(),
                        fmt::format("mask '{}': {}", name, std::string(mask.status().message())));
  }
  return mask;
}

}  // namespace lcab
