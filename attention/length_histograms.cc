// The built-in distributions of document lengths, and what a histogram must fulfil.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "attention/documents.h"
#include "attention/parameters.h"
#include "fmt/format.h"

namespace lcab {
namespace {

// A share of documents, in millionths, is shorter than `tokens`.
struct Quantile {
  int64_t level;
  int64_t tokens;
};

// Quantiles of document lengths in tokens, denser where the tail is long; the last two enclose the
// longest documents. From the histograms that were published with the LCAB benchmark (arXiv
// 2510.17896), lengths within a bin taken as uniform.

// the Pile
constexpr std::array<Quantile, 47> kPile = {
    {{0, 0},          {25000, 27},       {50000, 42},    {75000, 55},    {100000, 67},
     {125000, 79},    {150000, 92},      {175000, 103},  {200000, 115},  {225000, 126},
     {250000, 137},   {275000, 148},     {300000, 160},  {325000, 171},  {350000, 182},
     {375000, 194},   {400000, 206},     {425000, 218},  {450000, 230},  {475000, 244},
     {500000, 257},   {525000, 272},     {550000, 287},  {575000, 308},  {600000, 331},
     {625000, 357},   {650000, 389},     {675000, 426},  {700000, 470},  {725000, 522},
     {750000, 586},   {775000, 666},     {800000, 765},  {825000, 891},  {850000, 1065},
     {875000, 1326},  {900000, 1711},    {925000, 2274}, {950000, 3438}, {960000, 4117},
     {970000, 4980},  {980000, 6211},    {985000, 7098}, {990000, 9080}, {995000, 12387},
     {997753, 14208}, {1000000, 9323168}}};

// the 64K mixture of ProLong
constexpr std::array<Quantile, 47> kProlong64k = {
    {{0, 0},          {25000, 39},     {50000, 69},    {75000, 84},     {100000, 98},
     {125000, 112},   {150000, 126},   {175000, 141},  {200000, 155},   {225000, 170},
     {250000, 185},   {275000, 201},   {300000, 218},  {325000, 235},   {350000, 253},
     {375000, 272},   {400000, 292},   {425000, 313},  {450000, 335},   {475000, 358},
     {500000, 383},   {525000, 410},   {550000, 437},  {575000, 466},   {600000, 497},
     {625000, 528},   {650000, 563},   {675000, 602},  {700000, 645},   {725000, 694},
     {750000, 749},   {775000, 811},   {800000, 885},  {825000, 975},   {850000, 1082},
     {875000, 1229},  {900000, 1441},  {925000, 1766}, {950000, 2382},  {960000, 2836},
     {970000, 3620},  {980000, 5415},  {985000, 7491}, {990000, 15286}, {995000, 35941},
     {998469, 50272}, {1000000, 61920}}};

// the 512K mixture of ProLong
constexpr std::array<Quantile, 46> kProlong512k = {
    {{0, 0},           {25000, 45},    {50000, 66},    {75000, 80},    {100000, 93},
     {125000, 106},    {150000, 119},  {175000, 132},  {200000, 145},  {225000, 158},
     {250000, 173},    {275000, 187},  {300000, 202},  {325000, 217},  {350000, 234},
     {375000, 251},    {400000, 269},  {425000, 287},  {450000, 307},  {475000, 328},
     {500000, 350},    {525000, 374},  {550000, 400},  {575000, 427},  {600000, 455},
     {625000, 486},    {650000, 516},  {675000, 550},  {700000, 589},  {725000, 633},
     {750000, 683},    {775000, 739},  {800000, 805},  {825000, 884},  {850000, 983},
     {875000, 1104},   {900000, 1279}, {925000, 1551}, {950000, 2034}, {960000, 2380},
     {970000, 2941},   {980000, 4161}, {985000, 6024}, {990000, 9203}, {992688, 10912},
     {1000000, 475872}}};

// Between neighbouring quantiles lengths are uniform.
template <size_t N>
constexpr std::array<LengthBin, N - 1> ToBins(const std::array<Quantile, N>& quantiles) {
  std::array<LengthBin, N - 1> bins;
  for (size_t i = 0; i + 1 < N; ++i) {
    bins[i] = {quantiles[i].tokens, quantiles[i + 1].tokens,
               static_cast<double>(quantiles[i + 1].level - quantiles[i].level) * 1e-6};
  }
  return bins;
}

constexpr auto kPileBins = ToBins(kPile);
constexpr auto kProlong64kBins = ToBins(kProlong64k);
constexpr auto kProlong512kBins = ToBins(kProlong512k);

struct NamedHistogram {
  std::string_view name;
  std::span<const LengthBin> bins;
};
constexpr NamedHistogram kHistograms[] = {
    {"pile", kPileBins}, {"prolong64k", kProlong64kBins}, {"prolong512k", kProlong512kBins}};

}  // namespace

std::vector<std::string> LengthHistogramNames() {
  std::vector<std::string> names;
  for (const NamedHistogram& histogram : kHistograms) names.emplace_back(histogram.name);
  return names;
}

absl::StatusOr<std::span<const LengthBin>> LengthHistogram(std::string_view name) {
  for (const NamedHistogram& histogram : kHistograms) {
    if (histogram.name == name) return histogram.bins;
  }
  const std::string nearest = NearestName(name, LengthHistogramNames());
  return absl::NotFoundError(
      fmt::format("there is no length histogram '{}'{}; there are {}", name,
                  nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                  fmt::join(LengthHistogramNames(), ", ")));
}

absl::Status Validate(std::span<const LengthBin> histogram) {
  if (histogram.empty()) return absl::InvalidArgumentError("a length histogram needs a bin");
  double total = 0;
  for (const LengthBin& bin : histogram) {
    const std::string text = fmt::format("bin [{},{})", bin.begin, bin.end);
    if (bin.begin < 0 || bin.end <= bin.begin || bin.end > kMaxDocumentTokens) {
      return absl::InvalidArgumentError(
          fmt::format("{}: lengths must ascend, within 0..{}", text, kMaxDocumentTokens));
    }
    if (!std::isfinite(bin.weight) || bin.weight <= 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the weight is {}; it must be finite and above 0", text, bin.weight));
    }
    total += bin.weight;
  }
  if (!std::isfinite(total)) {
    return absl::InvalidArgumentError("the weights of the length histogram add up to infinity");
  }
  std::vector<LengthBin> sorted(histogram.begin(), histogram.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const LengthBin& a, const LengthBin& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].begin < sorted[i - 1].end) {
      return absl::InvalidArgumentError(fmt::format("bins [{},{}) and [{},{}) overlap",
                                                    sorted[i - 1].begin, sorted[i - 1].end,
                                                    sorted[i].begin, sorted[i].end));
    }
  }
  return absl::OkStatus();
}

}  // namespace lcab
