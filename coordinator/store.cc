#include "coordinator/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "coordinator/schema.h"
#include "fmt/format.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

// A transaction takes at most this many changes, so that the first does not wait long for the last.
constexpr size_t kMaxBatch = 256;
// Connections that are kept when nobody reads.
constexpr size_t kMaxIdleReaders = 4;

// The log holds nothing that is not in the file itself: nobody has it open, or nobody wrote yet.
bool IsAtRest(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path + "-wal", error);
  return error || size == 0;
}

// What changes when the file is written.
struct Stamp {
  std::filesystem::file_time_type time;
  uintmax_t size = 0;

  static Stamp Of(const std::string& path) {
    std::error_code ignored;  // a file that cannot be looked at cannot be read either
    return {std::filesystem::last_write_time(path, ignored),
            std::filesystem::file_size(path, ignored)};
  }
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// Before a file is opened for writing, which alone changes it: it may be somebody else's.
absl::Status CheckOwned(const std::string& path) {
  std::error_code missing;
  if (std::filesystem::file_size(path, missing) == 0 || missing) return absl::OkStatus();
  auto before = Connection::Open(path, Connection::Access::kReadOnly);
  return before.ok() ? CheckMayMigrate(**before) : before.status();
}

}  // namespace

Reader::Reader(std::string path) : path_(std::move(path)) {}

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return DatabaseError(absl::StatusCode::kNotFound, fmt::format("there is no file {}", path));
  }
  std::unique_ptr<Reader> reader(new Reader(path));
  if (absl::Status status = reader->Read(CheckSchema); !status.ok()) return status;
  return reader;
}

// A new connection each time: one that lives on would not see what is written meanwhile.
absl::Status Reader::ReadAtRest(const std::function<absl::Status(Connection&)>& read) const {
  const Stamp before = Stamp::Of(path_);
  auto connection = Connection::Open(path_, Connection::Access::kAtRest);
  if (!connection.ok()) return connection.status();
  absl::Status status = read(**connection);
  if (absl::Status failed = (*connection)->TakeStatus(); !failed.ok()) status = std::move(failed);
  if (Stamp::Of(path_) == before) return status;
  return DatabaseLocked(
      fmt::format("{} was written by another program while it was read: try again", path_));
}

absl::Status Reader::Read(const std::function<absl::Status(Connection&)>& read) {
  if (IsAtRest(path_)) return ReadAtRest(read);
  std::unique_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (connection == nullptr) {
    auto opened = Connection::Open(path_, Connection::Access::kReadOnly);
    if (absl::IsFailedPrecondition(opened.status())) {
      return DatabaseError(
          absl::StatusCode::kFailedPrecondition,
          fmt::format("{0} cannot be read together with its log, {0}-wal: copy both to a folder "
                      "that may be written, and read them there ({1})",
                      path_, std::string(opened.status().message())));
    }
    if (!opened.ok()) return opened.status();
    connection = *std::move(opened);
  }
  connection->Execute("BEGIN");
  absl::Status status = connection->status().ok() ? read(*connection) : absl::OkStatus();
  if (absl::Status failed = connection->TakeStatus(); !failed.ok()) status = std::move(failed);
  connection->Execute("ROLLBACK");
  // A connection that failed is not kept.
  if (connection->status().ok()) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdleReaders) idle_.push_back(std::move(connection));
  }
  return status;
}

// A file beside the database that one process at a time holds locked. Not the database itself:
// closing a second descriptor of it would drop SQLite's own locks.
class Store::Lock {
 public:
  static absl::StatusOr<std::unique_ptr<Lock>> Take(const std::string& database) {
    const std::string path = database + "-lock";
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      return DatabaseError(
          absl::StatusCode::kFailedPrecondition,
          fmt::format("cannot create {} ({}): check that its folder exists and may be written",
                      path, std::strerror(errno)));
    }
    std::unique_ptr<Lock> lock(new Lock(descriptor));
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      return service::ErrorWithInfo(
          absl::StatusCode::kFailedPrecondition,
          fmt::format("{} is in use by another lcab-coordinator or `lcab-client run`: stop it, or "
                      "choose another file with --db",
                      database),
          kDatabaseLocked);
    }
    return lock;
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { close(descriptor_); }

 private:
  explicit Lock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

struct Store::Pending {
  Change change;
  std::function<void()> committed;

  enum class Stage { kQueued, kGivenUp, kStarted, kDone };
  std::mutex mutex;
  std::condition_variable finished;
  Stage stage = Stage::kQueued;
  absl::Status status;

  // False when its caller gave it up: it must not run, what it refers to may be gone.
  bool Start() {
    const std::lock_guard lock(mutex);
    if (stage == Stage::kGivenUp) return false;
    stage = Stage::kStarted;
    return true;
  }
  void Finish(absl::Status result) {
    const std::lock_guard lock(mutex);
    status = std::move(result);
    stage = Stage::kDone;
    finished.notify_all();
  }
};

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path) {
  // Before the lock, too, whose file is not to be left beside what is no database of ours.
  if (absl::Status status = CheckOwned(path); !status.ok()) return status;
  auto lock = Lock::Take(path);
  if (!lock.ok()) return lock.status();
  if (absl::Status status = CheckOwned(path); !status.ok()) return status;
  auto writer = Connection::Open(path, Connection::Access::kReadWrite);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = Migrate(**writer); !status.ok()) return status;
  auto reader = Reader::Open(path);
  if (!reader.ok()) return reader.status();
  return std::unique_ptr<Store>(
      new Store(path, *std::move(lock), *std::move(writer), *std::move(reader)));
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenReadOnly(const std::string& path) {
  auto reader = Reader::Open(path);
  if (!reader.ok()) return reader.status();
  return std::unique_ptr<Store>(new Store(path, nullptr, nullptr, *std::move(reader)));
}

Store::Store(std::string path, std::unique_ptr<Lock> lock, std::unique_ptr<Connection> writer,
             std::unique_ptr<Reader> reader)
    : path_(std::move(path)),
      lock_(std::move(lock)),
      writer_(std::move(writer)),
      reader_(std::move(reader)) {
  if (writer_ != nullptr) thread_ = std::thread([this] { RunWriter(); });
}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  given_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Store::Write(Change change, std::function<void()> committed) {
  if (writer_ == nullptr) {
    return absl::FailedPreconditionError(fmt::format("{} was opened for reading only", path_));
  }
  auto pending = std::make_shared<Pending>();
  pending->change = std::move(change);
  pending->committed = std::move(committed);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(pending);
  }
  given_.notify_one();
  std::unique_lock lock(pending->mutex);
  const auto done = [&] { return pending->stage == Pending::Stage::kDone; };
  if (pending->finished.wait_for(lock, absl::ToChronoMilliseconds(kWriteTimeout), done)) {
    return pending->status;
  }
  if (pending->stage == Pending::Stage::kQueued) {
    pending->stage = Pending::Stage::kGivenUp;
    return absl::DeadlineExceededError(
        fmt::format("{} took no change for {} s: is its disk overloaded?", path_,
                    absl::ToInt64Seconds(kWriteTimeout)));
  }
  // It runs, and uses what its caller's stack holds: nothing is left but to wait for SQLite, whose
  // own waits are bounded.
  pending->finished.wait(lock, done);
  return pending->status;
}

absl::Status Store::Read(const std::function<absl::Status(Connection&)>& read) {
  return reader_->Read(read);
}

absl::Status Store::Health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

absl::Status Store::Probe() {
  return Write([](Connection& db) {
    db.Execute("INSERT OR REPLACE INTO facts VALUES ('probe', '')");
    db.Execute("DELETE FROM facts WHERE name = 'probe'");
    return absl::OkStatus();
  });
}

absl::Status Store::FirstFailure() const {
  const std::lock_guard lock(mutex_);
  return first_failure_;
}

StoreMetrics Store::metrics() const {
  const std::lock_guard lock(mutex_);
  return metrics_;
}

int64_t Store::wal_bytes() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(path_ + "-wal", error);
  return error ? 0 : static_cast<int64_t>(size);
}

void Store::RunWriter() {
  while (true) {
    std::vector<std::shared_ptr<Pending>> batch;
    {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      while (!queue_.empty() && batch.size() < kMaxBatch) {
        batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    Commit(std::move(batch));
  }
}

void Store::Commit(std::vector<std::shared_ptr<Pending>> batch) {
  const absl::Time start = absl::Now();
  Connection& db = *writer_;
  const int64_t written = db.total_changes();
  std::vector<absl::Status> statuses(batch.size());
  absl::Status met;  // the worst that SQL met in a change, for Health
  db.Execute("BEGIN IMMEDIATE");
  absl::Status broken = db.TakeStatus();
  for (size_t i = 0; i < batch.size() && broken.ok(); ++i) {
    if (!batch[i]->Start()) continue;
    db.Execute("SAVEPOINT change");
    absl::Status& status = statuses[i];
    if (db.status().ok()) status = batch[i]->change(db);
    if (absl::Status failed = db.TakeStatus(); !failed.ok()) {
      met = failed;
      status = std::move(failed);
    }
    if (!db.in_transaction()) {
      broken = status;  // SQLite gave the whole transaction up
      break;
    }
    if (!status.ok()) db.Execute("ROLLBACK TO change");
    db.Execute("RELEASE change");
    broken = db.TakeStatus();
  }
  if (broken.ok()) {
    db.Execute("COMMIT");
    broken = db.TakeStatus();
  }
  if (!broken.ok() && db.in_transaction()) {
    db.Execute("ROLLBACK");
    (void)db.TakeStatus();  // it is given up in any case, and `broken` is the cause
  }
  Record(broken.ok() ? met : broken, broken.ok(), db.total_changes() > written, batch.size(),
         absl::Now() - start);
  for (size_t i = 0; i < batch.size(); ++i) {
    const absl::Status& status = broken.ok() ? statuses[i] : broken;
    if (status.ok() && batch[i]->committed) batch[i]->committed();
    // Before anyone is told: what they captured belongs to the caller.
    batch[i]->change = nullptr;
    batch[i]->committed = nullptr;
    batch[i]->Finish(status);
  }
}

void Store::Record(const absl::Status& met, bool committed, bool wrote, size_t changes,
                   absl::Duration busy) {
  const std::lock_guard lock(mutex_);
  // A transaction that had nothing to store shows nothing of the disk.
  if (!met.ok() || wrote) health_ = met;
  if (first_failure_.ok() && service::ErrorReason(met) == kDatabaseFailed) first_failure_ = met;
  ++metrics_.transactions;
  metrics_.busy += busy;
  if (committed) {
    metrics_.changes += static_cast<int64_t>(changes);
  } else {
    ++metrics_.failures;
  }
}

}  // namespace lcab::coordinator
