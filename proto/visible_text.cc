#include "proto/visible_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace lcab {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// The character that the text begins with, which is not empty. RFC 3629, section 4.
Character Decode(std::string_view text) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(text[i])}; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xC2 && lead <= 0xDF   ? 2
                       : lead >= 0xE0 && lead <= 0xEF ? 3
                       : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                      : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, bytes};
}

// U+202A to U+202E and U+2066 to U+2069 change the direction of what follows.
bool TurnsDirection(uint32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string Visible(std::string_view text, bool keep_lines) {
  std::string visible;
  while (!text.empty()) {
    const Character character = Decode(text);
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
