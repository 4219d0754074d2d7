// What a verification found: the worst of each part, and whether each part holds.
//
//   Findings findings(/*rank=*/0);
//   findings.Check(Part::kProbe, error / allowed, [&] { return ...; });   // > 1 is wrong

#ifndef LCAB_MEASUREMENT_FINDINGS_H_
#define LCAB_MEASUREMENT_FINDINGS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lcab/v1/trial.pb.h"

namespace lcab::measurement {

enum class Part { kProbe, kNumbers, kHonesty };
inline constexpr int kParts = 3;
std::string_view Name(Part part);  // "probe", "numbers", "honesty"

// Stands for errors that are infinite or NaN, in ratios and in max_error.
inline constexpr double kBeyondMeasure = 1e30;

// Collects one rank's findings, from any thread.
class Findings {
 public:
  explicit Findings(int rank) : rank_(rank) {}

  // `ratio` is the error as a share of what is allowed. `describe` is called
  // only when the finding is among the worst so far; part, ratio and rank are filled in here.
  void Check(Part part, double ratio, const std::function<v1::Finding()>& describe);
  // Something that is simply wrong.
  void Fail(Part part, std::string message);
  void CountRows(int64_t rows);
  void CountKeys(int64_t keys);
  // Row-relative L2 error against fp64, and as a share of what is allowed.
  void NoteError(double error, double ratio);

  bool ok() const;
  bool ok(Part part) const;
  v1::Verification ToProto() const;
  // A part's findings that are wrong, worst first.
  std::vector<v1::Finding> Wrong(Part part) const;

 private:
  // The worst few of a part, worst first.
  using Worst = std::vector<v1::Finding>;

  const int rank_;
  mutable std::mutex mutex_;
  std::array<Worst, kParts> worst_;
  std::array<bool, kParts> failed_ = {};
  int64_t rows_ = 0;
  int64_t keys_ = 0;
  double max_error_ = 0;
  double max_error_ratio_ = 0;
};

// Of all ranks: ok where every rank's is, counts added, the worst findings kept, worst first.
v1::Verification Merge(std::span<const v1::Verification> ranks);

bool IsOk(const v1::Verification& verification);

// The worst finding in words, with place and values: the reason of a wrong result.
std::string Describe(const v1::Finding& finding);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_FINDINGS_H_
