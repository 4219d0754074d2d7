// What can be said of a text before and after a YAML reader has seen it: bytes that no suite may
// hold, and words for what the reader does not like.

#ifndef LCAB_SUITES_YAML_TEXT_H_
#define LCAB_SUITES_YAML_TEXT_H_

#include <string>
#include <string_view>

#include "suites/diagnostics.h"

namespace lcab::suites {

// `text` without the mark of UTF-8 that some editors put at the beginning.
std::string_view WithoutByteOrderMark(std::string_view text);

// Adds a finding for the first of: another encoding than UTF-8 (RFC 3629), a control
// character other than tab and line ends, a carriage return without a line feed.
void CheckCharacters(std::string_view text, Diagnostics& diagnostics);

// What to do about the reader's message `message` at `where`: "not YAML: ...", in words for those
// who do not know its grammar.
std::string WhyNotYaml(std::string_view text, Location where, std::string_view message);

// Whether a scalar whose quote stands at byte `offset` has none at its end: the reader takes the
// rest of the file for it.
bool IsUnclosedQuote(std::string_view text, size_t offset);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_YAML_TEXT_H_
