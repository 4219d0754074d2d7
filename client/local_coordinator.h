// A coordinator inside this program, and a worker for it: what `run` is made of. They talk over a
// socket in a folder that only this user can open; runners are processes of their own.

#ifndef LCAB_CLIENT_LOCAL_COORDINATOR_H_
#define LCAB_CLIENT_LOCAL_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/coordinator.h"
#include "worker/worker.h"

namespace lcab::client {

struct LocalOptions {
  std::string db;
  int64_t cpu_slots = 1;
  std::string runner;  // path of lcab-runner
};

class LocalCoordinator {
 public:
  // With a worker that offers `cpu_slots` devices. Statuses of Coordinator::Start and
  // Worker::Start.
  static absl::StatusOr<std::unique_ptr<LocalCoordinator>> Start(const LocalOptions& options);
  // Only answers what the file holds: nothing runs, nothing is written, and a run may be writing
  // it. NotFound where there is no file.
  static absl::StatusOr<std::unique_ptr<LocalCoordinator>> OpenReadOnly(const std::string& db);
  LocalCoordinator(const LocalCoordinator&) = delete;
  LocalCoordinator& operator=(const LocalCoordinator&) = delete;
  ~LocalCoordinator();  // ends what runs

  const std::string& address() const { return coordinator_->address(); }
  // Of the socket and the worker's state.
  const std::string& folder() const { return folder_; }
  // See Coordinator::StoreFailure.
  absl::Status StoreFailure() const { return coordinator_->StoreFailure(); }

 private:
  LocalCoordinator() = default;
  absl::Status Open(const std::string& db, bool read_only);

  std::string folder_;  // of the socket and the worker's state; removed at the end
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<worker::Worker> worker_;  // goes before the coordinator
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_LOCAL_COORDINATOR_H_
