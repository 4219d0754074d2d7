// Element types of attention tensors, with conversions that are exact or round to nearest even.

#ifndef LCAB_ATTENTION_DTYPE_H_
#define LCAB_ATTENTION_DTYPE_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lcab {

enum class DType { kFloat32, kBFloat16 };

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// "fp32" or "bf16", as suites and tables write it.
constexpr std::string_view Name(DType dtype) { return dtype == DType::kFloat32 ? "fp32" : "bf16"; }

// The inverse of Name(); nothing for any other text.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  if (name == "fp32") return DType::kFloat32;
  if (name == "bf16") return DType::kBFloat16;
  return std::nullopt;
}

// A bfloat16 as its bits: the upper half of an IEEE binary32.
struct BFloat16 {
  uint16_t bits = 0;

  friend constexpr bool operator==(BFloat16, BFloat16) = default;
};

// Exact.
constexpr float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Rounds to nearest, ties to even; NaN stays a (quiet) NaN, infinities stay.
constexpr BFloat16 ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace lcab

#endif  // LCAB_ATTENTION_DTYPE_H_
