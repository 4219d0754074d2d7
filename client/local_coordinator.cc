#include "client/local_coordinator.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "coordinator/connection.h"

namespace lcab::client {
namespace {

// A socket's path has at most 107 bytes.
constexpr size_t kMostFolderBytes = 90;
// The same in every run, so that the next one takes over what this one leaves unfinished.
constexpr char kWorkerName[] = "local";

absl::StatusOr<std::string> MakeFolder() {
  std::error_code error;
  std::string base = std::filesystem::temp_directory_path(error).string();
  if (error || base.size() > kMostFolderBytes) base = "/tmp";
  std::string folder = base + "/lcab-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(
        fmt::format("cannot make a folder in {}: {}; set TMPDIR to one that can be written", base,
                    std::strerror(errno)));
  }
  return folder;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCoordinator>> LocalCoordinator::Start(
    const LocalOptions& options) {
  std::unique_ptr<LocalCoordinator> local(new LocalCoordinator);
  if (absl::Status status = local->Open(options.db, /*read_only=*/false); !status.ok())
    return status;
  auto worker = worker::Worker::Start({.coordinator = local->address(),
                                       .name = kWorkerName,
                                       .cpu_slots = options.cpu_slots,
                                       .state_path = local->folder_ + "/worker",
                                       .runner = options.runner});
  if (!worker.ok()) return worker.status();
  local->worker_ = *std::move(worker);
  return local;
}

absl::StatusOr<std::unique_ptr<LocalCoordinator>> LocalCoordinator::OpenReadOnly(
    const std::string& db) {
  std::error_code error;
  if (!std::filesystem::exists(db, error)) {
    return coordinator::DatabaseError(
        absl::StatusCode::kNotFound,
        fmt::format("there is no file {}; `lcab-client run SUITE --db {}` makes one", db, db));
  }
  std::unique_ptr<LocalCoordinator> local(new LocalCoordinator);
  if (absl::Status status = local->Open(db, /*read_only=*/true); !status.ok()) return status;
  return local;
}

absl::Status LocalCoordinator::Open(const std::string& db, bool read_only) {
  absl::StatusOr<std::string> folder = MakeFolder();
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  auto coordinator = coordinator::Coordinator::Start(
      {.listen = fmt::format("unix:{}/socket", folder_), .db = db, .read_only = read_only});
  if (!coordinator.ok()) return coordinator.status();
  coordinator_ = *std::move(coordinator);
  return absl::OkStatus();
}

LocalCoordinator::~LocalCoordinator() {
  worker_.reset();
  coordinator_.reset();
  std::error_code ignored;  // a folder that is left in /tmp does no harm
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace lcab::client
