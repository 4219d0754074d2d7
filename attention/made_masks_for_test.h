// For tests: options and masks in one line each.

#ifndef LCAB_ATTENTION_MADE_MASKS_FOR_TEST_H_
#define LCAB_ATTENTION_MADE_MASKS_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/masks.h"

namespace lcab {

inline Value Whole(int64_t value) { return Value{value}; }
inline Value Word(std::string text) { return Value{std::move(text)}; }
inline Value Integers(const std::vector<int64_t>& values) {
  Value::List list;
  for (const int64_t value : values) list.push_back(Value{value});
  return Value{list};
}

// The mask over as many queries as keys; ends the test where it cannot be made.
inline Mask Made(std::string_view name, const Options& options, int64_t tokens, uint64_t seed = 1,
                 int64_t draw = 0, int64_t kv_heads = 1) {
  return MakeMask(name, options, {tokens, tokens, kv_heads, seed, draw}).value();
}

// Why it cannot be made, or "ok".
inline std::string Refusal(std::string_view name, const Options& options, int64_t q_tokens,
                           int64_t k_tokens) {
  const auto mask = MakeMask(name, options, {q_tokens, k_tokens, 1, 1, 0});
  return mask.ok() ? "ok" : std::string(mask.status().message());
}

}  // namespace lcab

#endif  // LCAB_ATTENTION_MADE_MASKS_FOR_TEST_H_
