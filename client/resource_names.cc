#include "client/resource_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace lcab::client {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() &&
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

}  // namespace lcab::client
