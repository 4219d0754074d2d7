#include "report/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace lcab::report {

std::string ThreeDigits(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::fabs(value);
  // 9.995 and up is written with one digit behind the point, else three digits would be four.
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size >= 0.9995 || size == 0) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return "-";
  // A unit is left where its three digits would read 1000.
  if (seconds < 999.5e-9) return fmt::format("{} ns", ThreeDigits(seconds * 1e9));
  if (seconds < 999.5e-6) return fmt::format("{} us", ThreeDigits(seconds * 1e6));
  if (seconds < 999.5e-3) return fmt::format("{} ms", ThreeDigits(seconds * 1e3));
  if (seconds < 99.95) return fmt::format("{} s", ThreeDigits(seconds));
  return WaitText(absl::Seconds(seconds));
}

std::string WaitText(absl::Duration duration) {
  const int64_t seconds =
      std::max<int64_t>(absl::ToInt64Seconds(duration + absl::Milliseconds(500)), 0);
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} m {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} m", seconds / 3600, seconds / 60 % 60);
}

std::string BytesText(int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (std::fabs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", ThreeDigits(value), kUnits[unit]);
}

std::string CountText(double count) {
  constexpr std::array<std::string_view, 6> kUnits = {"K", "M", "G", "T", "P", "E"};
  if (!std::isfinite(count)) return "-";
  if (std::fabs(count) < 999.5) return fmt::format("{:.0f}", count);
  double value = count / 1000;
  size_t unit = 0;
  while (std::fabs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", ThreeDigits(value), kUnits[unit]);
}

std::string Grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace lcab::report
