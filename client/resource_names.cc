#include "client/resource_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "suites/diagnostics.h"

namespace lcab::client {
namespace {

// More digits than any number of ours has are no number.
constexpr size_t kMostDigits = 18;
constexpr size_t kMostWorkerBytes = 100;

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string JobName(std::string_view text) {
  return IsNumber(text) ? fmt::format("jobs/{}", text) : std::string(text);
}

std::string TrialName(std::string_view text) {
  constexpr std::string_view kJobs = "jobs/";
  constexpr std::string_view kTrials = "trials/";
  std::string_view rest = text;
  if (rest.substr(0, kJobs.size()) == kJobs) rest.remove_prefix(kJobs.size());
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::string(text);
  const std::string_view job = rest.substr(0, slash);
  std::string_view trial = rest.substr(slash + 1);
  if (trial.substr(0, kTrials.size()) == kTrials) trial.remove_prefix(kTrials.size());
  if (!IsNumber(job) || !IsNumber(trial)) return std::string(text);
  return fmt::format("jobs/{}/trials/{}", job, trial);
}

std::string WorkerName(std::string_view text) {
  return text.find('/') == std::string_view::npos ? fmt::format("workers/{}", text)
                                                  : std::string(text);
}

absl::Status CheckJob(std::string_view text) {
  constexpr std::string_view kJobs = "jobs/";
  const std::string name = JobName(text);
  if (name.starts_with(kJobs) && IsNumber(std::string_view(name).substr(kJobs.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is no job; write jobs/12 or 12", suites::Quote(text)));
}

absl::Status CheckTrial(std::string_view text) {
  // A name that TrialName understands comes out in one form, which it understands again.
  const std::string name = TrialName(text);
  if (name.starts_with("jobs/") && name.find("/trials/") != std::string::npos &&
      TrialName(name.substr(5)) == name) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is no trial; write jobs/12/trials/3 or 12/3", suites::Quote(text)));
}

absl::Status CheckWorker(std::string_view text) {
  constexpr std::string_view kWorkers = "workers/";
  const std::string name = WorkerName(text);
  const std::string_view id = std::string_view(name).substr(std::min(name.size(), kWorkers.size()));
  const bool named = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-' || c == ':';
  });
  if (name.starts_with(kWorkers) && !id.empty() && id.size() <= kMostWorkerBytes && named) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is no worker; write workers/node-2 or node-2", suites::Quote(text)));
}

}  // namespace lcab::client
