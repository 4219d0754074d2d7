// Masks over one sequence. Rows i and keys j count from 0; S is the number of tokens.

#include <algorithm>

#include "absl/status/status.h"
#include "attention/draws.h"
#include "attention/mask_families.h"
#include "fmt/format.h"

namespace lcab {
namespace {

constexpr double kMostTokens = static_cast<double>(Mask::kMaxTokens);

Parameter Window(std::optional<int64_t> default_value, std::string description, double minimum) {
  Parameter parameter{
      "window", ParameterKind::kInteger, {}, std::move(description), minimum, kMostTokens, {}};
  if (default_value) parameter.default_value = Value{*default_value};
  return parameter;
}

absl::StatusOr<Mask> MakeFull(const MaskContext& context, const Options&) {
  return MaskOfBands(context, {{0, context.q_tokens, 0, context.k_tokens, {}, {}}});
}

absl::StatusOr<Mask> MakeCausal(const MaskContext& context, const Options&) {
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) return status;
  return MaskOfBands(context, {{0, context.q_tokens, 0, context.k_tokens, {}, 1}});
}

absl::StatusOr<Mask> MakeSlidingWindowCausal(const MaskContext& context, const Options& options) {
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) return status;
  const int64_t window = GetInteger(options, "window");
  return MaskOfBands(context, {{0, context.q_tokens, 0, context.k_tokens, -window, 1}});
}

absl::StatusOr<Mask> MakeSlidingWindowFull(const MaskContext& context, const Options& options) {
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) return status;
  const int64_t window = GetInteger(options, "window");
  return MaskOfBands(context, {{0, context.q_tokens, 0, context.k_tokens, -window, window + 1}});
}

absl::StatusOr<Mask> MakePrefixLmCausal(const MaskContext& context, const Options& options) {
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) return status;
  const int64_t tokens = context.q_tokens;
  int64_t prefix = GetInteger(options, "prefix");
  if (prefix > tokens) {
    return absl::InvalidArgumentError(
        fmt::format("prefix {} is longer than the sequence of {} tokens", prefix, tokens));
  }
  if (prefix == 0 && tokens > 0) {
    PhiloxStream random = DrawStream(context.seed, DrawPurpose::kPrefix, context.draw);
    prefix = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(tokens)));
  }
  return MaskOfBands(context,
                     {{0, tokens, 0, prefix, {}, {}}, {prefix, tokens, prefix, tokens, {}, 1}});
}

absl::StatusOr<Mask> MakeGlobalSlidingWindow(const MaskContext& context, const Options& options) {
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) return status;
  const int64_t tokens = context.q_tokens;
  int64_t window = GetInteger(options, "window");
  if (window == 0) {
    const int64_t most = tokens / 3 - 1;
    if (most < 1) {
      return absl::InvalidArgumentError(fmt::format(
          "the window is drawn from 1..S/3-1, which is empty for {} tokens; give 'window', or 6 "
          "tokens or more",
          tokens));
    }
    PhiloxStream random = DrawStream(context.seed, DrawPurpose::kWindow, context.draw);
    window = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most)));
  }
  const int64_t global = std::min(window, tokens);
  return MaskOfBands(context, {{0, global, 0, tokens, {}, {}},
                               {global, tokens, 0, global, {}, {}},
                               {global, tokens, global, tokens, -window, window + 1}});
}

}  // namespace

std::vector<MaskType> SequenceMaskTypes() {
  return {
      {"full", "all pairs", {}, false, MakeFull},
      {"causal", "j <= i", {}, false, MakeCausal},
      {"sliding_window_causal",
       "0 <= i - j <= window",
       {Window(1024, "tokens before its own that a row sees", 0)},
       false,
       MakeSlidingWindowCausal},
      {"sliding_window_full",
       "abs(i - j) <= window",
       {Window(1024, "tokens on either side of its own that a row sees", 0)},
       false,
       MakeSlidingWindowFull},
      {"prefix_lm_causal",
       "j < prefix or j <= i",
       {{"prefix",
         ParameterKind::kInteger,
         Value{int64_t{0}},
         "tokens that all rows see; 0: drawn from 1..S",
         0,
         kMostTokens,
         {}}},
       true,
       MakePrefixLmCausal},
      {"global_sliding_window",
       "i < window or j < window or abs(i - j) <= window",
       {Window(0, "tokens that are global, and seen on either side; 0: drawn from 1..S/3-1", 0)},
       true,
       MakeGlobalSlidingWindow},
  };
}

}  // namespace lcab
