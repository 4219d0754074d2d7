#include "proto/visible_text.h"

#include <fmt/format.h>

#include <cstdint>

#include "proto/utf8.h"

namespace lcab {
namespace {

// U+202A to U+202E and U+2066 to U+2069 change the direction of what follows.
bool TurnsDirection(uint32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string Visible(std::string_view text, bool keep_lines) {
  std::string visible;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    const uint32_t code = character.code;
    const bool kept = keep_lines && (code == '\n' || code == '\t');
    if (character.bytes == 0) {
      visible += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (!kept && (code < 0x20 || (code >= 0x7F && code <= 0x9F))) {
      visible += fmt::format("\\x{:02x}", code);
    } else if (TurnsDirection(code)) {
      visible += fmt::format("\\u{:04x}", code);
    } else {
      visible += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes == 0 ? 1 : character.bytes);
  }
  return visible;
}

}  // namespace

std::string VisibleText(std::string_view text) { return Visible(text, /*keep_lines=*/false); }

std::string VisibleLines(std::string_view text) { return Visible(text, /*keep_lines=*/true); }

}  // namespace lcab
