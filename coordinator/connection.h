// One SQLite connection with its prepared statements: SQL in, values out, errors as a status.
//
//   for (Rows rows = db.Query("SELECT id, name FROM t WHERE size > ?", {size}); rows.Next();) {
//     Use(rows.Int(0), rows.Text(1));
//   }
//   if (!db.status().ok()) ...
//
// An error sticks: from the first one on, statements do nothing and queries have no rows, so that a
// transaction is written straight down and checked once, before it is committed.

#ifndef LCAB_COORDINATOR_CONNECTION_H_
#define LCAB_COORDINATOR_CONNECTION_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"

namespace lcab::coordinator {

// Reasons in a status's ErrorInfo: the file is what is wrong. A locked one may be tried again.
inline constexpr std::string_view kDatabaseFailed = "DATABASE_FAILED";
inline constexpr std::string_view kDatabaseLocked = "DATABASE_LOCKED";

// A status that has kDatabaseFailed as its reason.
absl::Status DatabaseError(absl::StatusCode code, std::string_view message);
absl::Status DatabaseLocked(std::string_view message);

struct Blob {
  std::string_view bytes;
};
using SqlValue = std::variant<std::nullptr_t, int64_t, std::string_view, Blob>;

class Connection;

// The rows of one query. While it lives it holds a read snapshot of the database: do not keep it.
class Rows {
 public:
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows&&) = delete;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows();

  // False at the end, and after an error (see Connection::status).
  bool Next();

  // Columns count from 0. NULL is 0 and empty.
  int64_t Int(int column) const;
  bool IsNull(int column) const;
  std::string Text(int column) const;
  absl::Time Time(int column) const;  // stored by ToSql
  // DataLoss on the connection when the bytes are no such message.
  void Parse(int column, google::protobuf::MessageLite& message) const;

 private:
  friend class Connection;
  struct Cursor;
  Rows(Connection& connection, Cursor* cursor);

  Connection* connection_;
  Cursor* cursor_;  // nullptr after an error; owned by the connection
};

// Used by one thread at a time.
class Connection {
 public:
  enum class Access {
    kReadWrite,
    kReadOnly,
    // The file as it lies there, without locks and without a look at its log; nothing is made
    // beside it. Only for a file that nobody writes.
    kAtRest,
  };

  // Opens (kReadWrite: or creates) the database in WAL mode with a busy timeout, foreign keys and
  // synchronous=NORMAL. Each status is a DatabaseError and says what to do: NotFound,
  // FailedPrecondition (may not be opened or written), DataLoss (not a database, or damaged),
  // ResourceExhausted (the disk is full), Unavailable (locked, or the disk or a limit on the size
  // of files keeps it from being written).
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& path, Access access);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Runs a statement without rows; returns how many rows it changed. `sql` is prepared once.
  int64_t Execute(std::string_view sql, std::initializer_list<SqlValue> values = {});
  // Runs several statements, unprepared: schemas.
  void ExecuteScript(const std::string& sql);
  Rows Query(std::string_view sql, std::initializer_list<SqlValue> values = {});
  // The first column of the first row; 0 where there is none.
  int64_t QueryInt(std::string_view sql, std::initializer_list<SqlValue> values = {});
  int64_t last_insert_id() const;
  // Rows that were changed since it was opened, also those that were taken back.
  int64_t total_changes() const;

  // The first error since the last TakeStatus.
  const absl::Status& status() const { return status_; }
  absl::Status TakeStatus();
  // For errors that are found above SQL.
  void Fail(absl::Status status);

  // False when SQLite rolled the transaction back by itself (a full disk, an I/O error).
  bool in_transaction() const;
  const std::string& path() const { return path_; }

 private:
  friend class Rows;
  struct State;
  explicit Connection(std::string path);
  Rows::Cursor* Prepare(std::string_view sql, std::initializer_list<SqlValue> values);
  void FailSql(int code, std::string_view what, std::string_view sql);

  std::string path_;
  std::unique_ptr<State> state_;
  absl::Status status_;
};

// Times are stored in microseconds since 1970.
inline int64_t ToSql(absl::Time time) { return absl::ToUnixMicros(time); }

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_CONNECTION_H_
