// The registry of named masks: the twelve static ones, custom slices, and the two block-sparse
// ones. Each is a pure function of its parameters, token counts, kv heads and seed, the same on
// every machine. Definitions: the LCAB paper (arXiv 2510.17896) as written out in docs/masks.md.

#ifndef LCAB_ATTENTION_MASKS_H_
#define LCAB_ATTENTION_MASKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/mask.h"
#include "attention/parameters.h"

namespace lcab {

struct MaskContext {
  int64_t q_tokens = 0;
  int64_t k_tokens = 0;  // most masks require q_tokens == k_tokens and say so
  int64_t kv_heads = 1;
  uint64_t seed = 0;  // of the suite
  int64_t draw = 0;   // which of a random mask's draws
};

struct MaskType {
  std::string name;
  std::string description;  // its definition, one line
  std::vector<Parameter> parameters;
  bool random = false;  // depends on seed and draw
  absl::StatusOr<Mask> (*make)(const MaskContext&, const Options&) = nullptr;  // resolved options
};

// All masks, in the order of the docs. Registration is this table: nothing else to edit.
const std::vector<MaskType>& MaskTypes();
// nullptr when there is none of that name.
const MaskType* FindMaskType(std::string_view name);

// Resolves the options and makes the mask. NotFound names the nearest mask; InvalidArgument says
// which parameter or token count does not fit.
absl::StatusOr<Mask> MakeMask(std::string_view name, const Options& given,
                              const MaskContext& context);

}  // namespace lcab

#endif  // LCAB_ATTENTION_MASKS_H_
