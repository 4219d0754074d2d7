// What a worker keeps on disk between starts: who it is, and the lock that keeps a second worker
// out of the same folder.

#ifndef LCAB_WORKER_STATE_FOLDER_H_
#define LCAB_WORKER_STATE_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/file_descriptor.h"

namespace lcab::worker {

class StateFolder {
 public:
  // Makes the folder where there is none. `name` is who the worker wants to be; empty: who it was,
  // else the host's name. FailedPrecondition when another process holds the folder, or when it
  // belongs to a worker of another name; InvalidArgument for a name that is none.
  static absl::StatusOr<StateFolder> Open(const std::string& path, const std::string& name);

  const std::string& path() const { return path_; }
  // Of [a-z0-9-._], at most 63 characters: the last part of its resource name, workers/{id}.
  const std::string& worker_id() const { return worker_id_; }

 private:
  std::string path_;
  std::string worker_id_;
  FileDescriptor lock_;
};

// $XDG_STATE_HOME/lcab/workers/NAME, else ~/.local/state/lcab/workers/NAME; empty where neither
// variable is set. Without a name, the host's.
std::string DefaultStatePath(const std::string& name);

// 16 hex digits that no other start of a daemon has.
std::string MakeIncarnation();

}  // namespace lcab::worker

#endif  // LCAB_WORKER_STATE_FOLDER_H_
