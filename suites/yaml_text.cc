#include "suites/yaml_text.h"

#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/utf8.h"

namespace lcab::suites {
namespace {

bool IsControl(uint32_t code) {
  return (code < 0x20 && code != '\t' && code != '\n' && code != '\r') ||
         (code >= 0x7F && code < 0xA0);
}

Location PlaceOf(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_end = before.rfind('\n');
  const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  return {.line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          .column = static_cast<int>(offset - begin) + 1};
}

bool IsIndentedWithTab(std::string_view text, int line) {
  size_t begin = 0;
  for (int n = 1; n < line; ++n) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return false;
    ++begin;
  }
  for (size_t i = begin; i < text.size() && (text[i] == ' ' || text[i] == '\t'); ++i) {
    if (text[i] == '\t') return true;
  }
  return false;
}

struct Advice {
  const char* message;  // of yaml-cpp, or how it begins
  std::string_view advice;
};

}  // namespace

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

void CheckCharacters(std::string_view text, Diagnostics& diagnostics) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(i));
    if (character.bytes == 0) {
      return diagnostics.Add(PlaceOf(text, i),
                             fmt::format("byte 0x{:02x} is not UTF-8; save the file as UTF-8",
                                         static_cast<unsigned char>(text[i])));
    }
    if (IsControl(character.code)) {
      return diagnostics.Add(
          PlaceOf(text, i),
          fmt::format("control character U+{:04X}; remove it (a suite is a text in UTF-8)",
                      character.code));
    }
    if (character.code == '\r' && (i + 1 == text.size() || text[i + 1] != '\n')) {
      return diagnostics.Add(PlaceOf(text, i),
                             "a carriage return that ends no line; save the file with lines that "
                             "end in LF, or in CR LF");
    }
    i += character.bytes;
  }
}

std::string WhyNotYaml(std::string_view text, Location where, std::string_view message) {
  if (IsIndentedWithTab(text, where.line)) {
    return "not YAML: the line is indented with a tab; use spaces";
  }
  static const Advice kAdvice[] = {
      {YAML::ErrorMsg::MAP_VALUE,
       "a ':' stands where no key can be; check the indentation, or put a value that holds ': ' in "
       "quotes"},
      {YAML::ErrorMsg::MAP_KEY, "a key stands where none can be; check the indentation"},
      {YAML::ErrorMsg::BLOCK_ENTRY,
       "a list cannot begin here; put each '- ' on a line of its own below the key, indented "
       "alike"},
      {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a list that begins with '[' is not closed; add its ']'"},
      {YAML::ErrorMsg::END_OF_MAP_FLOW, "a map that begins with '{' is not closed; add its '}'"},
      {YAML::ErrorMsg::FLOW_END, "a ']' or '}' closes nothing; remove it"},
      {YAML::ErrorMsg::END_OF_MAP,
       "this line is no key of the map above; check its indentation, and that it has a ': '"},
      {YAML::ErrorMsg::END_OF_SEQ,
       "this line is no element of the list above; check its indentation, and that it begins with "
       "'- '"},
      {YAML::ErrorMsg::TAB_IN_INDENTATION, "a line is indented with a tab; use spaces"},
      {YAML::ErrorMsg::EOF_IN_SCALAR, "a text in quotes is not closed; add the quote at its end"},
      {YAML::ErrorMsg::DOC_IN_SCALAR, "a text in quotes is not closed; add the quote at its end"},
      {YAML::ErrorMsg::UNKNOWN_TOKEN,
       "no value can begin with this character; put the value in quotes"},
      {YAML::ErrorMsg::UNKNOWN_ANCHOR, "an alias (*name) needs an anchor (&name) before it"},
      {YAML::ErrorMsg::INVALID_ESCAPE,
       "this escape after a backslash is none of YAML's; double the backslash, or use single "
       "quotes"},
  };
  for (const Advice& known : kAdvice) {
    if (message.starts_with(known.message)) return fmt::format("not YAML: {}", known.advice);
  }
  return fmt::format("not YAML: {}", message);
}

bool IsUnclosedQuote(std::string_view text, size_t offset) {
  if (offset >= text.size()) return false;
  const char quote = text[offset];
  if (quote != '"' && quote != '\'') return false;
  for (size_t i = offset + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return false;
      ++i;  // '' within single quotes is one quote
    }
  }
  return true;
}

}  // namespace lcab::suites
