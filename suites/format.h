// The maps of the suite format and their keys. The parser reads by these tables, and docs/suites.md
// is checked against them.

#ifndef LCAB_SUITES_FORMAT_H_
#define LCAB_SUITES_FORMAT_H_

#include <span>
#include <string_view>

namespace lcab::suites {

struct FormatMap {
  std::string_view what;  // as messages and headings call it
  std::span<const std::string_view> keys;
};

inline constexpr std::string_view kSuiteKeys[] = {"name", "description", "seed", "measure",
                                                  "matrices"};
inline constexpr std::string_view kMatrixKeys[] = {
    "shape",    "operator", "seq_len",          "mask",    "kernel", "pass",
    "strategy", "ranks",    "ranks_per_device", "overlap", "measure"};
inline constexpr std::string_view kShapeKeys[] = {"q_heads",     "kv_heads",   "head_dim",
                                                  "qk_head_dim", "v_head_dim", "dtype"};
inline constexpr std::string_view kOperatorKeys[] = {"name", "scale", "softcap"};
inline constexpr std::string_view kLengthKeys[] = {"per_rank", "q_tokens", "k_tokens"};
inline constexpr std::string_view kMeasureKeys[] = {
    "mode",      "warmup", "min_samples", "max_samples", "max_time",    "confidence",
    "precision", "cache",  "inputs",      "timeout",     "memory_limit"};

inline constexpr FormatMap kSuiteMap = {"a suite", kSuiteKeys};
inline constexpr FormatMap kMatrixMap = {"a matrix", kMatrixKeys};
inline constexpr FormatMap kShapeMap = {"a shape", kShapeKeys};
inline constexpr FormatMap kOperatorMap = {"an operator", kOperatorKeys};
inline constexpr FormatMap kLengthMap = {"a seq_len", kLengthKeys};
inline constexpr FormatMap kMeasureMap = {"a measure", kMeasureKeys};

inline constexpr FormatMap kFormatMaps[] = {kSuiteMap,    kMatrixMap, kShapeMap,
                                            kOperatorMap, kLengthMap, kMeasureMap};

}  // namespace lcab::suites

#endif  // LCAB_SUITES_FORMAT_H_
