// The mask types by family; masks.cc makes one table of them. Each family is one source.

#ifndef LCAB_ATTENTION_MASK_FAMILIES_H_
#define LCAB_ATTENTION_MASK_FAMILIES_H_

#include <vector>

#include "attention/masks.h"

namespace lcab {

// Patterns over one sequence: full, causal, windows, prefixes.
std::vector<MaskType> SequenceMaskTypes();
// Patterns over packed documents.
std::vector<MaskType> DocumentMaskTypes();
// Any set of slices.
std::vector<MaskType> SliceMaskTypes();
// Random block maps.
std::vector<MaskType> BlockSparseMaskTypes();

// InvalidArgument unless there are as many queries as keys.
absl::Status RequireSelfAttention(const MaskContext& context);

// A mask of these bands for all heads.
absl::StatusOr<Mask> MaskOfBands(const MaskContext& context, std::vector<Band> bands);

}  // namespace lcab

#endif  // LCAB_ATTENTION_MASK_FAMILIES_H_
