#include "worker/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"

namespace lcab::worker {
namespace {

constexpr size_t kMostNameBytes = 63;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

absl::Status CheckName(std::string_view name) {
  if (!name.empty() && name.size() <= kMostNameBytes &&
      std::all_of(name.begin(), name.end(), IsNameCharacter) && name.front() != '.') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("'{}' is no name for a worker: use 1 to {} characters of a-z, 0-9, '-', '.' and "
                  "'_', as in --name gpu-node-3",
                  name, kMostNameBytes));
}

// The host's name, made to fit.
std::string HostName() {
  std::array<char, 256> text{};
  if (gethostname(text.data(), text.size() - 1) != 0 || text[0] == '\0') return "worker";
  std::string name;
  for (const char c : std::string_view(text.data()).substr(0, kMostNameBytes)) {
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    name += IsNameCharacter(lower) ? lower : '-';
  }
  if (name.front() == '.') name.front() = '-';
  return name;
}

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

absl::StatusOr<StateFolder> StateFolder::Open(const std::string& path, const std::string& name) {
  if (!name.empty()) {
    if (absl::Status status = CheckName(name); !status.ok()) return status;
  }
  std::error_code error;
  std::filesystem::create_directories(path, error);
  StateFolder folder;
  folder.path_ = path;
  const std::string lock_path = path + "/lock";
  folder.lock_ = FileDescriptor(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!folder.lock_.valid()) {
    return absl::PermissionDeniedError(
        fmt::format("cannot use {} as state folder: {}; choose another with --state-dir", path,
                    error ? error.message() : std::strerror(errno)));
  }
  if (flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "another worker uses the state folder {}; give this one a --name or --state-dir of its own",
        path));
  }

  const std::string id_path = path + "/id";
  folder.worker_id_ = ReadLine(id_path);
  if (!folder.worker_id_.empty() && CheckName(folder.worker_id_).ok()) {
    if (!name.empty() && name != folder.worker_id_) {
      return absl::FailedPreconditionError(
          fmt::format("the state folder {} belongs to worker '{}', not '{}'; choose another with "
                      "--state-dir",
                      path, folder.worker_id_, name));
    }
    return folder;
  }
  folder.worker_id_ = name.empty() ? HostName() : name;
  std::ofstream file(id_path, std::ios::trunc);
  file << folder.worker_id_ << '\n';
  file.close();
  if (!file) {
    return absl::UnavailableError(
        fmt::format("cannot write {}: {}", id_path, std::strerror(errno)));
  }
  return folder;
}

std::string DefaultStatePath(const std::string& name) {
  const std::string tail = "/lcab/workers/" + (name.empty() ? HostName() : name);
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return state + tail;
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.local/state" + tail;
  }
  return {};
}

std::string MakeIncarnation() {
  std::random_device device;
  const uint64_t high = device();
  return fmt::format("{:016x}", high << 32 | device());
}

}  // namespace lcab::worker
