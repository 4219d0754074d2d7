// Characters of a text in UTF-8 (RFC 3629).

#ifndef LCAB_PROTO_UTF8_H_
#define LCAB_PROTO_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lcab {

struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: the text begins with something else
};

// The character that the text begins with; the text is not empty. Stray and missing continuations,
// forms that are longer than needed, surrogates and what lies beyond U+10FFFF are none.
Utf8Character FirstCharacter(std::string_view text);

}  // namespace lcab

#endif  // LCAB_PROTO_UTF8_H_
