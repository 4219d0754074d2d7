#include "coordinator/resource_names.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "fmt/format.h"

namespace lcab::coordinator {
namespace {

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// FNV-1a: the same in every process, unlike absl::Hash.
uint32_t Fingerprint(std::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace

std::string JobName(int64_t id) { return fmt::format("jobs/{}", id); }

std::string TrialName(int64_t job, int64_t number) {
  return fmt::format("jobs/{}/trials/{}", job, number);
}

std::string WorkerName(std::string_view id) { return fmt::format("workers/{}", id); }

absl::StatusOr<int64_t> ParseJobName(std::string_view name) {
  const std::vector<std::string_view> parts = Split(name, '/');
  std::optional<int64_t> id;
  if (parts.size() == 1) id = ParseNumber(parts[0]);
  if (parts.size() == 2 && parts[0] == "jobs") id = ParseNumber(parts[1]);
  if (!id.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no job; a job's name looks like jobs/7", name.substr(0, 100)));
  }
  return *id;
}

absl::StatusOr<TrialId> ParseTrialName(std::string_view name) {
  const std::vector<std::string_view> parts = Split(name, '/');
  std::optional<int64_t> job;
  std::optional<int64_t> number;
  if (parts.size() == 2) {
    job = ParseNumber(parts[0]);
    number = ParseNumber(parts[1]);
  }
  if (parts.size() == 4 && parts[0] == "jobs" && parts[2] == "trials") {
    job = ParseNumber(parts[1]);
    number = ParseNumber(parts[3]);
  }
  if (!job.has_value() || !number.has_value()) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no trial; a trial's name looks like jobs/7/trials/3", name.substr(0, 100)));
  }
  return TrialId{*job, *number};
}

absl::StatusOr<std::string> ParseWorkerName(std::string_view name) {
  constexpr std::string_view kPrefix = "workers/";
  if (name.substr(0, kPrefix.size()) == kPrefix) name.remove_prefix(kPrefix.size());
  if (name.empty() || name.find('/') != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no worker; a worker's name looks like workers/w1", name.substr(0, 100)));
  }
  return std::string(name);
}

std::string MakePageToken(std::string_view list, int64_t first, int64_t second) {
  return absl::WebSafeBase64Escape(fmt::format("{}.{}.{}", Fingerprint(list), first, second));
}

absl::StatusOr<PageStart> ParsePageToken(std::string_view list, std::string_view token) {
  std::string text;
  if (absl::WebSafeBase64Unescape({token.data(), token.size()}, &text)) {
    const std::vector<std::string_view> parts = Split(text, '.');
    if (parts.size() == 3 && ParseNumber(parts[0]) == Fingerprint(list)) {
      const std::optional<int64_t> first = ParseNumber(parts[1]);
      const std::optional<int64_t> second = ParseNumber(parts[2]);
      if (first.has_value() && second.has_value()) return PageStart{*first, *second};
    }
  }
  return absl::InvalidArgumentError(
      "the page token is not one of this list with these filters: use the next_page_token of the "
      "answer before, or none");
}

absl::StatusOr<int> PageSize(int asked, int usual, int most) {
  if (asked < 0) {
    return absl::InvalidArgumentError(
        fmt::format("page_size {} is negative; it is 1 to {}, or 0 for {}", asked, most, usual));
  }
  return asked == 0 ? usual : std::min(asked, most);
}

}  // namespace lcab::coordinator
