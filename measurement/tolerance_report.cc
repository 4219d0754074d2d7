// lcab-tolerance-report: the tables of docs/measurements/verification-long.md.
//
//   lcab-tolerance-report good [SEEDS]   good kernels against what is allowed, over every mask,
//   head
//                                        dim and distribution; ends with 1 when one is beyond it
//   lcab-tolerance-report faults         the smallest fault that is found

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "measurement/tolerance_bench_for_test.h"

namespace lcab::measurement {
namespace {

constexpr std::string_view kUsage = "lcab-tolerance-report good [SEEDS] | faults\n";

int ReportGood(uint64_t seeds) {
  bool all_within = true;
  fmt::print("| dtype | head dim | inputs | cpu_tiled | cpu_reference | emulation |\n");
  for (const DType dtype : kDTypes) {
    for (const int64_t dim : kDims) {
      for (const Distribution distribution :
           {Distribution::kNormal, Distribution::kHeavyTailed, Distribution::kLargeRows,
            Distribution::kCorrelated}) {
        std::map<std::string, Ratios> worst;
        for (const auto& [mask, options] : Masks()) {
          for (uint64_t seed = 1; seed <= seeds; ++seed) {
            for (const Good& good :
                 RunGood(MakeProblem({mask, options, 258, 2, 1, dim, dim, dtype}), seed,
                         distribution)) {
              if (Worst(good.ratios) >= 1) {
                all_within = false;
                fmt::print(stderr, "not within: {} {} seed {}{}\n", good.what, mask, seed,
                           Text(good.ratios));
              }
              Raise(&worst[good.what], good.ratios);
            }
          }
        }
        fmt::print("| {} | {} | {} |{} |{} |{} |\n", Name(dtype), dim, Name(distribution),
                   Text(worst["cpu_tiled"]), Text(worst["cpu_reference"]),
                   Text(worst["emulation"]));
        std::fflush(stdout);
      }
    }
  }
  return all_within ? 0 : 1;
}

int ReportFaults() {
  fmt::print("| keys of the row | dtype | allowed error of out | keys whose loss is found |\n");
  for (const DType dtype : kDTypes) {
    for (const int64_t keys : {64, 256, 1'024, 4'096, 16'384, 65'536, 1 << 20}) {
      const Reach reach = ReachOf(keys, dtype);
      fmt::print("| {} | {} | {:.2g} | {:.1f}% |\n", keys, Name(dtype), reach.allowed,
                 100 * reach.found);
    }
  }
  return 0;
}

int Report(std::span<char*> words) {
  const std::string_view what = words.empty() ? "" : words[0];
  uint64_t seeds = 4;
  if (words.size() == 2) {
    const std::string_view given = words[1];
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), seeds);
    if (error != std::errc() || end != given.data() + given.size() || seeds == 0) words = {};
  }
  if (what == "good" && (words.size() == 1 || words.size() == 2)) return ReportGood(seeds);
  if (what == "faults" && words.size() == 1) return ReportFaults();
  fmt::print(stderr, "{}", kUsage);
  return 2;
}

}  // namespace
}  // namespace lcab::measurement

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(throw_on_failure, true);  // of what is shared with tests
  return lcab::measurement::Report(std::span(argv, static_cast<size_t>(argc)).subspan(1));
}
