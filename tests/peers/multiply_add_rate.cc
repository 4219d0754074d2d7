#include "tests/peers/multiply_add_rate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/peers/multiply_add_rate.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Operations that were done.
int64_t MultiplyAdds(int64_t rounds) {
  const hn::ScalableTag<float> tag;
  // Enough independent sums to hide the latency of any processor's multiply-adds.
  constexpr int kSums = 12;
  hn::Vec<hn::ScalableTag<float>> sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(tag, static_cast<float>(i));
  const auto factor = hn::Set(tag, 0.5f), term = hn::Set(tag, 0.25f);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  volatile float sink = hn::GetLane(sums[0]);
  static_cast<void>(sink);
  return 2 * kSums * static_cast<int64_t>(hn::Lanes(tag)) * rounds;
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lcab {

HWY_EXPORT(MultiplyAdds);

double MultiplyAddRate(Device& device) {
  constexpr int64_t kRounds = 100'000;
  constexpr int kBursts = 20;
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    int64_t operations = 0;
    const auto start = std::chrono::steady_clock::now();
    device.workers()->Run(device.workers()->threads(), [&](int64_t part, int) {
      const int64_t done = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(kRounds);
      if (part == 0) operations = done;
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(
        best, static_cast<double>(operations * device.workers()->threads()) / seconds.count());
  }
  return best;
}

}  // namespace lcab
#endif
