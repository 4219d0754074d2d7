// Numbers, sizes and durations as people write them in suites: 4096, 4K, 1M, 0.02, 5s, 500ms.

#ifndef LCAB_SUITES_SCALARS_H_
#define LCAB_SUITES_SCALARS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace lcab::suites {

// What each of these accepts, for messages.
inline constexpr std::string_view kSizeForm =
    "an integer as 4096, or with K (1024), M (1024 K) or G (1024 M) behind it as 4K";
inline constexpr std::string_view kRealForm = "a number as 0.02";
inline constexpr std::string_view kDurationForm = "a duration with its unit as 500ms, 5s or 2m";
inline constexpr std::string_view kBoolForm = "true or false";

// Decimal, without leading zeros (YAML versions disagree about those); nothing for any other text
// and for values that do not fit 64 bits.
std::optional<int64_t> ParseSize(std::string_view text);
// Finite, decimal.
std::optional<double> ParseReal(std::string_view text);
// Finite, not negative.
std::optional<absl::Duration> ParseDuration(std::string_view text);
std::optional<bool> ParseBool(std::string_view text);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_SCALARS_H_
