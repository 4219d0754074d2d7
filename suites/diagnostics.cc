#include "suites/diagnostics.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "attention/parameters.h"
#include "proto/visible_text.h"

namespace lcab::suites {
namespace {

constexpr size_t kMostFindings = 20;
constexpr size_t kMostQuoted = 60;
constexpr size_t kMostMessage = 2'000;

// Bytes 10xxxxxx continue a character of UTF-8.
bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The whole characters of `text`, which is longer, within its first `bytes`.
std::string_view UpTo(std::string_view text, size_t bytes) {
  while (bytes > 0 && ContinuesCharacter(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

Diagnostics::Diagnostics(std::string_view file_name) : file_name_(VisibleText(file_name)) {}

void Diagnostics::Add(Location where, std::string_view message) {
  // Other folders' messages repeat what a suite holds, whatever it is.
  findings_.emplace(where.line, where.column,
                    message.size() <= kMostMessage
                        ? VisibleText(message)
                        : VisibleText(UpTo(message, kMostMessage)) + "...");
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
  if (text.size() <= kMostQuoted) return fmt::format("'{}'", VisibleText(text));
  return fmt::format("'{}...'", VisibleText(UpTo(text, kMostQuoted)));
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
