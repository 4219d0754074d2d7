#include "worker/death.h"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <fstream>
#include <optional>
#include <string_view>

#include "worker/runner_exit_codes.h"

namespace lcab::worker {
namespace {

constexpr size_t kMostQuoted = 200;

// Raised by what the program itself does.
constexpr std::array kOwnSignals = {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGTRAP, SIGSYS};

bool IsOwnSignal(int signal) {
  for (const int own : kOwnSignals) {
    if (signal == own) return true;
  }
  return false;
}

// The last line that holds something, fit for one line of a table.
std::string LastLine(std::string_view output) {
  const size_t end = output.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  output = output.substr(0, end + 1);
  if (const size_t line = output.find_last_of("\r\n"); line != std::string_view::npos) {
    output = output.substr(line + 1);
  }
  std::string quoted;
  for (const char c : output.substr(0, kMostQuoted)) {
    const auto byte = static_cast<unsigned char>(c);
    quoted += byte < 0x20 || byte >= 0x7F ? '?' : c;
  }
  if (output.size() > kMostQuoted) quoted += "...";
  return quoted;
}

// The number behind `key` in a file of lines "key number".
std::optional<int64_t> ReadCounter(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return std::nullopt;
}

}  // namespace

Verdict Judge(const Death& death) {
  Verdict verdict{.outcome = v1::OUTCOME_CRASHED, .fault = v1::FAULT_INFRASTRUCTURE};
  const std::string when = !death.in_trial       ? " outside a trial"
                           : death.stage.empty() ? std::string()
                                                 : fmt::format(" in stage {}", death.stage);
  const std::string last = LastLine(death.last_output);
  const std::string printed =
      last.empty() ? std::string() : fmt::format("; it last printed: {}", last);
  std::string meaning;
  const bool bad_alloc = death.last_output.find("std::bad_alloc") != std::string::npos;

  if (death.end.signal == SIGKILL && death.out_of_memory_kill) {
    verdict.outcome = v1::OUTCOME_OUT_OF_MEMORY;
    verdict.fault = v1::FAULT_LIMIT;
    meaning =
        ": the machine or its cgroup ran out of memory; use a smaller problem or fewer ranks "
        "on this machine";
  } else if (death.end.signal == SIGABRT && death.memory_limit_bytes > 0 && bad_alloc) {
    verdict.outcome = v1::OUTCOME_OUT_OF_MEMORY;
    verdict.fault = v1::FAULT_LIMIT;
    meaning =
        fmt::format(": an allocation failed under the limit of {} bytes", death.memory_limit_bytes);
  } else if (IsOwnSignal(death.end.signal)) {
    verdict.fault = v1::FAULT_KERNEL;
    meaning = death.in_trial ? ": a fault of the kernel that ran" : "";
  } else if (death.end.signal == 0 && death.end.exit_code == kLostPeerExitCode) {
    meaning = ": another rank died while they connected";
  } else if (death.end.signal != 0) {
    meaning = ": somebody outside ended it";
  } else if (death.in_trial) {
    verdict.fault = v1::FAULT_KERNEL;
    meaning = " without a result: the kernel ended the process";
  } else {
    meaning = " before it could run anything";
  }
  verdict.reason = fmt::format("{}{}{}{}", Describe(death.end), when, meaning, printed);
  return verdict;
}

int64_t OutOfMemoryKills() {
  std::ifstream self("/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string events = "/sys/fs/cgroup" + line.substr(3) + "/memory.events";
    if (const auto kills = ReadCounter(events, "oom_kill"); kills.has_value()) return *kills;
  }
  return ReadCounter("/proc/vmstat", "oom_kill").value_or(0);
}

}  // namespace lcab::worker
