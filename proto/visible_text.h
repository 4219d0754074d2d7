// Text that came in a message, for a terminal: what a terminal would act upon is shown instead.

#ifndef LCAB_PROTO_VISIBLE_TEXT_H_
#define LCAB_PROTO_VISIBLE_TEXT_H_

#include <string>
#include <string_view>

namespace lcab {

// For one line: control characters (also line breaks and those of ISO 6429 from U+0080 on), bytes
// that are not UTF-8, and characters that turn the direction of writing become \x1b, \x0a, \u202e.
// All else stays.
std::string VisibleText(std::string_view text);

// For several lines: line breaks and tabs stay, too.
std::string VisibleLines(std::string_view text);

}  // namespace lcab

#endif  // LCAB_PROTO_VISIBLE_TEXT_H_
