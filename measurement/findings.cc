#include "measurement/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lcab::measurement {
namespace {

constexpr size_t kKeptOfPart = 5;  // three parts stay below the 16 that a result carries
constexpr size_t kKept = 16;

// NaN, which would compare with nothing, and infinity, which neither JSON nor a plot can carry.
double Finite(double error) { return error < kBeyondMeasure ? error : kBeyondMeasure; }

bool Worse(const v1::Finding& a, const v1::Finding& b) { return a.error_ratio() > b.error_ratio(); }

// Wrong ones, worst first; the single worst when none is.
void KeepWorst(std::vector<v1::Finding> findings, v1::Verification* verification) {
  std::stable_sort(findings.begin(), findings.end(), Worse);
  for (size_t i = 0; i < std::min(findings.size(), kKept); ++i) {
    if (i > 0 && findings[i].error_ratio() <= 1) break;
    *verification->add_findings() = std::move(findings[i]);
  }
}

}  // namespace

std::string_view Name(Part part) {
  constexpr std::array<std::string_view, kParts> kNames = {"probe", "numbers", "honesty"};
  return kNames[static_cast<size_t>(part)];
}

void Findings::Check(Part part, double ratio, const std::function<v1::Finding()>& describe) {
  ratio = Finite(ratio);
  const auto index = static_cast<size_t>(part);
  const std::lock_guard lock(mutex_);
  if (ratio > 1) failed_[index] = true;
  Worst& worst = worst_[index];
  if (worst.size() == kKeptOfPart && worst.back().error_ratio() >= ratio) return;
  // Right ones are only kept as the single worst.
  if (ratio <= 1 && !worst.empty() && worst.front().error_ratio() >= ratio) return;
  v1::Finding finding = describe();
  finding.set_part(std::string(Name(part)));
  finding.set_error_ratio(ratio);
  finding.set_rank(rank_);
  worst.insert(std::upper_bound(worst.begin(), worst.end(), finding, Worse), std::move(finding));
  if (worst.size() > kKeptOfPart) worst.pop_back();
}

void Findings::Fail(Part part, std::string message) {
  Check(part, kBeyondMeasure, [&] {
    v1::Finding finding;
    finding.set_head(-1);
    finding.set_token(-1);
    finding.set_message(std::move(message));
    return finding;
  });
}

void Findings::CountRows(int64_t rows) {
  const std::lock_guard lock(mutex_);
  rows_ += rows;
}

void Findings::CountKeys(int64_t keys) {
  const std::lock_guard lock(mutex_);
  keys_ += keys;
}

void Findings::NoteError(double error, double ratio) {
  const std::lock_guard lock(mutex_);
  max_error_ = std::max(max_error_, Finite(error));
  max_error_ratio_ = std::max(max_error_ratio_, Finite(ratio));
}

bool Findings::ok() const {
  const std::lock_guard lock(mutex_);
  return std::none_of(failed_.begin(), failed_.end(), [](bool failed) { return failed; });
}

bool Findings::ok(Part part) const {
  const std::lock_guard lock(mutex_);
  return !failed_[static_cast<size_t>(part)];
}

v1::Verification Findings::ToProto() const {
  const std::lock_guard lock(mutex_);
  v1::Verification verification;
  verification.set_probe_ok(!failed_[static_cast<size_t>(Part::kProbe)]);
  verification.set_numbers_ok(!failed_[static_cast<size_t>(Part::kNumbers)]);
  verification.set_honesty_ok(!failed_[static_cast<size_t>(Part::kHonesty)]);
  verification.set_rows_checked(rows_);
  verification.set_keys_checked(keys_);
  verification.set_max_error(max_error_);
  verification.set_max_error_ratio(max_error_ratio_);
  std::vector<v1::Finding> all;
  for (const Worst& worst : worst_) all.insert(all.end(), worst.begin(), worst.end());
  KeepWorst(std::move(all), &verification);
  return verification;
}

std::vector<v1::Finding> Findings::Wrong(Part part) const {
  const std::lock_guard lock(mutex_);
  std::vector<v1::Finding> wrong = worst_[static_cast<size_t>(part)];
  std::erase_if(wrong, [](const v1::Finding& finding) { return finding.error_ratio() <= 1; });
  return wrong;
}

v1::Verification Merge(std::span<const v1::Verification> ranks) {
  v1::Verification merged;
  merged.set_probe_ok(true);
  merged.set_numbers_ok(true);
  merged.set_honesty_ok(true);
  std::vector<v1::Finding> all;
  for (const v1::Verification& rank : ranks) {
    merged.set_probe_ok(merged.probe_ok() && rank.probe_ok());
    merged.set_numbers_ok(merged.numbers_ok() && rank.numbers_ok());
    merged.set_honesty_ok(merged.honesty_ok() && rank.honesty_ok());
    merged.set_rows_checked(merged.rows_checked() + rank.rows_checked());
    merged.set_keys_checked(merged.keys_checked() + rank.keys_checked());
    merged.set_max_error(std::max(merged.max_error(), rank.max_error()));
    merged.set_max_error_ratio(std::max(merged.max_error_ratio(), rank.max_error_ratio()));
    all.insert(all.end(), rank.findings().begin(), rank.findings().end());
  }
  KeepWorst(std::move(all), &merged);
  return merged;
}

bool IsOk(const v1::Verification& verification) {
  return verification.probe_ok() && verification.numbers_ok() && verification.honesty_ok();
}

std::string Describe(const v1::Finding& finding) {
  std::string text = fmt::format("{}: ", finding.part());
  if (!finding.tensor().empty()) text += finding.tensor();
  if (finding.head() >= 0) text += fmt::format(" head {}", finding.head());
  const bool by_key = finding.tensor() == "dK" || finding.tensor() == "dV";
  if (finding.token() >= 0) text += fmt::format(" {} {}", by_key ? "key" : "row", finding.token());
  if (!finding.tensor().empty() || finding.head() >= 0 || finding.token() >= 0) text += ": ";
  text += finding.message();
  return text;
}

}  // namespace lcab::measurement
