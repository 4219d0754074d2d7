#include "worker/runner/test_hooks.h"

#include <charconv>
#include <functional>
#include <map>
#include <string_view>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace lcab::runner {
namespace {

template <typename T>
bool ReadNumber(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadDuration(const std::string& text, absl::Duration* value) {
  return absl::ParseDuration(text, value);
}

}  // namespace

absl::StatusOr<TestHooks> ParseTestHooks(
    const google::protobuf::Map<std::string, std::string>& map) {
  TestHooks hooks;
  const std::map<std::string, std::function<bool(const std::string&)>, std::less<>> readers = {
      {"cap_expires_rank", [&](auto& text) { return ReadNumber(text, &hooks.cap_expires_rank); }},
      {"cap_expires_iteration",
       [&](auto& text) { return ReadNumber(text, &hooks.cap_expires_iteration); }},
      {"allocation_fails_rank",
       [&](auto& text) { return ReadNumber(text, &hooks.allocation_fails_rank); }},
      {"device_lost_trial", [&](auto& text) { return ReadNumber(text, &hooks.device_lost_trial); }},
      {"executor_fault",
       [&](auto& text) {
         hooks.executor_fault = text;
         return true;
       }},
      {"clock_fraction",
       [&](auto& text) { return ReadNumber(text, &hooks.clock_fraction.emplace()); }},
      {"clock_fraction_iterations",
       [&](auto& text) { return ReadNumber(text, &hooks.clock_fraction_iterations); }},
      {"elapsed", [&](auto& text) { return ReadDuration(text, &hooks.elapsed.emplace()); }},
      {"launch_delay", [&](auto& text) { return ReadDuration(text, &hooks.launch_delay); }},
  };
  for (const auto& [name, text] : map) {
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      return absl::InvalidArgumentError(fmt::format("there is no test hook '{}'", name));
    }
    if (!reader->second(text)) {
      return absl::InvalidArgumentError(fmt::format("test hook '{}' cannot be '{}'", name, text));
    }
  }
  return hooks;
}

}  // namespace lcab::runner
