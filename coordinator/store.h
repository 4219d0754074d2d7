// The store: one SQLite file, one thread that writes it, any number of readers.
//
//   absl::Status stored = store->Write([&](Connection& db) {
//     db.Execute("UPDATE ...", {...});
//     return absl::OkStatus();
//   });
//
// Only the writer's thread writes or checkpoints: releases of SQLite before 3.51.3 can damage a WAL
// that two connections reset at once. Readers open the file read-only.

#ifndef LCAB_COORDINATOR_STORE_H_
#define LCAB_COORDINATOR_STORE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/connection.h"

namespace lcab::coordinator {

// Read-only connections, for several threads. Works with and without a writer elsewhere, changes
// nothing and leaves nothing behind; where nobody writes the file, its folder need not be writable.
class Reader {
 public:
  // NotFound where there is no such file; statuses of Connection::Open and CheckSchema.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const std::string& path);

  // Runs `read` in one snapshot. It must be short, a page and not a table: a snapshot that is held
  // keeps the WAL from being reset. Returns the first of its own status and the connection's.
  absl::Status Read(const std::function<absl::Status(Connection&)>& read);

 private:
  explicit Reader(std::string path);
  absl::Status ReadAtRest(const std::function<absl::Status(Connection&)>& read) const;

  const std::string path_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

struct StoreMetrics {
  int64_t transactions = 0;
  int64_t changes = 0;
  int64_t failures = 0;
  absl::Duration busy;  // time spent in transactions
};

class Store {
 public:
  using Change = std::function<absl::Status(Connection&)>;

  // Creates or migrates the file and takes it for this process: FailedPrecondition when another has
  // it, and statuses of Connection::Open and Migrate.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path);
  // Only reads: Write is refused with FailedPrecondition. Statuses of Reader::Open.
  static absl::StatusOr<std::unique_ptr<Store>> OpenReadOnly(const std::string& path);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();  // finishes what was given to it, and closes the file

  // Runs `change` on the writer's thread in a transaction that it may share with others, and
  // returns once that is committed. All or nothing: when `change` returns an error, or its SQL
  // fails, nothing of it is stored. `committed` runs on the writer's thread after the commit, in
  // the order of commits; it must be quick, and may not call Write. DeadlineExceeded when the
  // change's turn did not come within kWriteTimeout: it never runs then.
  absl::Status Write(Change change, std::function<void()> committed = nullptr);

  absl::Status Read(const std::function<absl::Status(Connection&)>& read);

  // Not ok from a transaction that failed until one has written something: while the disk is full
  // or the file damaged.
  absl::Status Health() const;
  // Writes and takes back a row: finds out whether the file can be written again.
  absl::Status Probe();
  // The first failure of the file (kDatabaseFailed) in the life of this store; ok while there was
  // none.
  absl::Status FirstFailure() const;
  StoreMetrics metrics() const;
  // Size of the write-ahead log.
  int64_t wal_bytes() const;
  const std::string& path() const { return path_; }

  static constexpr absl::Duration kWriteTimeout = absl::Seconds(60);

 private:
  struct Pending;
  class Lock;

  Store(std::string path, std::unique_ptr<Lock> lock, std::unique_ptr<Connection> writer,
        std::unique_ptr<Reader> reader);
  void RunWriter();
  void Commit(std::vector<std::shared_ptr<Pending>> batch);
  // `wrote`: something was stored.
  void Record(const absl::Status& met, bool committed, bool wrote, size_t changes,
              absl::Duration busy);

  const std::string path_;
  const std::unique_ptr<Lock> lock_;
  const std::unique_ptr<Connection> writer_;  // of the thread, once it runs; nullptr: read-only
  const std::unique_ptr<Reader> reader_;

  mutable std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::shared_ptr<Pending>> queue_;
  bool stopping_ = false;
  absl::Status health_;
  absl::Status first_failure_;
  StoreMetrics metrics_;

  std::thread thread_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_STORE_H_
