#include "suites/scalars.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/time/time.h"

namespace lcab::suites {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// 1 where there is no unit.
int64_t UnitOf(char c) {
  switch (c) {
    case 'K':
      return int64_t{1} << 10;
    case 'M':
      return int64_t{1} << 20;
    case 'G':
      return int64_t{1} << 30;
    default:
      return 1;
  }
}

bool HasLeadingZero(std::string_view digits) {
  return digits.size() > 1 && digits.front() == '0' && IsDigit(digits[1]);
}

}  // namespace

std::optional<int64_t> ParseSize(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const int64_t unit = UnitOf(text.back());
  if (unit > 1) text.remove_suffix(1);
  const std::string_view digits = text.substr(!text.empty() && text.front() == '-' ? 1 : 0);
  if (digits.empty() || !IsDigit(digits.front()) || HasLeadingZero(digits)) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (value > kMost / unit || value < -(kMost / unit)) return std::nullopt;
  return value * unit;
}

std::optional<double> ParseReal(std::string_view text) {
  const std::string_view digits = text.substr(!text.empty() && text.front() == '-' ? 1 : 0);
  // from_chars also reads "inf" and "nan".
  if (digits.empty() || !IsDigit(digits.front()) || HasLeadingZero(digits)) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<absl::Duration> ParseDuration(std::string_view text) {
  if (text.empty() || !IsDigit(text.front()) || IsDigit(text.back())) return std::nullopt;
  absl::Duration duration;
  if (!absl::ParseDuration(std::string(text), &duration)) return std::nullopt;
  if (duration == absl::InfiniteDuration() || duration < absl::ZeroDuration()) return std::nullopt;
  return duration;
}

std::optional<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

}  // namespace lcab::suites
