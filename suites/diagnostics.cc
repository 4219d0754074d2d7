#include "suites/diagnostics.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "attention/parameters.h"

namespace lcab::suites {
namespace {

constexpr size_t kMostFindings = 20;
constexpr size_t kMostQuoted = 60;

// Control characters would let a suite write over a reader's terminal.
std::string Printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return result;
}

// Bytes 10xxxxxx continue a character of UTF-8.
bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

Diagnostics::Diagnostics(std::string_view file_name) : file_name_(Printable(file_name)) {}

void Diagnostics::Add(Location where, std::string_view message) {
  findings_.emplace(where.line, where.column, std::string(message));
}

absl::Status Diagnostics::ToStatus() const {
  if (findings_.empty()) return absl::OkStatus();
  std::string text;
  size_t shown = 0;
  for (const auto& [line, column, message] : findings_) {
    if (shown == kMostFindings) {
      text += fmt::format("{}: and {} more", file_name_, findings_.size() - shown);
      return absl::InvalidArgumentError(text);
    }
    text += line == 0 ? fmt::format("{}: {}\n", file_name_, message)
                      : fmt::format("{}:{}:{}: {}\n", file_name_, line, column, message);
    ++shown;
  }
  text.pop_back();
  return absl::InvalidArgumentError(text);
}

std::string Quote(std::string_view text) {
  if (text.size() <= kMostQuoted) return fmt::format("'{}'", Printable(text));
  size_t cut = kMostQuoted;
  while (cut > 0 && ContinuesCharacter(text[cut])) --cut;
  return fmt::format("'{}...'", Printable(text.substr(0, cut)));
}

std::string UnknownName(std::string_view what, std::string_view name,
                        const std::vector<std::string>& known) {
  // Longer texts are no misspelling of a name, and distances cost the product of the lengths.
  const std::string nearest = name.size() > kMostQuoted ? std::string() : NearestName(name, known);
  const std::string question = nearest.empty()
                                   ? std::string("; known: ")
                                   : fmt::format("; did you mean '{}'? Known: ", nearest);
  return fmt::format("unknown {} {}{}{}", what, Quote(name), question,
                     known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

}  // namespace lcab::suites
