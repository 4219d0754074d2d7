#include "coordinator/connection.h"

#include <sqlite3.h>

#include <map>
#include <utility>
#include <vector>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "SQLiteCpp/Statement.h"
#include "fmt/format.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

// Readers wait this long for a checkpoint, the writer for a tool that somebody runs on the file.
constexpr int kBusyTimeoutMs = 5'000;
// A WAL that grew is cut to this at the next checkpoint.
constexpr int64_t kJournalSizeLimit = 16 << 20;

absl::Status SqlError(int code, std::string_view what, std::string_view path) {
  using absl::StatusCode;
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return DatabaseError(
          StatusCode::kResourceExhausted,
          fmt::format("the disk that holds {} is full: free some space, nothing was stored", path));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DatabaseError(
          StatusCode::kDataLoss,
          fmt::format("{} is damaged or is no SQLite database ({}): restore a backup of it, or "
                      "choose another file with --db",
                      path, what));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return DatabaseError(
          StatusCode::kFailedPrecondition,
          fmt::format("cannot open {} ({}): check that its folder exists and may be written", path,
                      what));
    case SQLITE_READONLY:
      return DatabaseError(
          StatusCode::kFailedPrecondition,
          fmt::format("cannot write {} ({}): check the permissions of the file, its folder and its "
                      "-wal and -shm files",
                      path, what));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return DatabaseLocked(
          fmt::format("{} is locked by another program; try again when it is done", path));
    case SQLITE_IOERR:
      return DatabaseError(
          StatusCode::kUnavailable,
          fmt::format("reading or writing {} failed ({}): check the disk, its quota, and the limit "
                      "on the size of files (ulimit -f)",
                      path, what));
    default:
      return absl::InternalError(fmt::format("{}: {}", path, what));
  }
}

// As a URI, in which some characters have a meaning of their own.
std::string AtRestUri(std::string_view path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

absl::Status DatabaseError(absl::StatusCode code, std::string_view message) {
  return service::ErrorWithInfo(code, message, kDatabaseFailed);
}

absl::Status DatabaseLocked(std::string_view message) {
  return service::ErrorWithInfo(absl::StatusCode::kUnavailable, message, kDatabaseLocked);
}

struct Rows::Cursor {
  std::unique_ptr<SQLite::Statement> statement;
  std::string sql;
};

struct Connection::State {
  std::unique_ptr<SQLite::Database> database;
  // Prepared statements that nobody uses at the moment.
  std::map<std::string, std::vector<std::unique_ptr<Rows::Cursor>>, std::less<>> idle;
  std::map<Rows::Cursor*, std::unique_ptr<Rows::Cursor>> in_use;
};

Rows::Rows(Connection& connection, Cursor* cursor) : connection_(&connection), cursor_(cursor) {}

Rows::Rows(Rows&& other) noexcept
    : connection_(other.connection_), cursor_(std::exchange(other.cursor_, nullptr)) {}

Rows::~Rows() {
  if (cursor_ == nullptr) return;
  Connection::State& state = *connection_->state_;
  // What reset returns is the error of the last step, which has been seen.
  (void)cursor_->statement->tryReset();
  auto node = state.in_use.extract(cursor_);
  state.idle[cursor_->sql].push_back(std::move(node.mapped()));
}

bool Rows::Next() {
  if (cursor_ == nullptr || !connection_->status_.ok()) return false;
  const int code = cursor_->statement->tryExecuteStep();
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    connection_->FailSql(code, cursor_->statement->getErrorMsg(), cursor_->sql);
  }
  return false;
}

int64_t Rows::Int(int column) const { return cursor_->statement->getColumn(column).getInt64(); }

bool Rows::IsNull(int column) const { return cursor_->statement->getColumn(column).isNull(); }

std::string Rows::Text(int column) const {
  return cursor_->statement->getColumn(column).getString();
}

absl::Time Rows::Time(int column) const { return absl::FromUnixMicros(Int(column)); }

void Rows::Parse(int column, google::protobuf::MessageLite& message) const {
  const auto value = cursor_->statement->getColumn(column);
  // The pointer is asked for before the size, as SQLite wants it.
  const void* bytes = value.getBlob();
  if (!message.ParseFromArray(bytes, value.getBytes())) {
    connection_->Fail(
        DatabaseError(absl::StatusCode::kDataLoss,
                      fmt::format("{} holds a {} that cannot be read: restore a backup of it",
                                  connection_->path_, message.GetTypeName())));
  }
}

Connection::Connection(std::string path)
    : path_(std::move(path)), state_(std::make_unique<State>()) {}

Connection::~Connection() = default;

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& path,
                                                             Access access) {
  std::unique_ptr<Connection> connection(new Connection(path));
  const bool writes = access == Access::kReadWrite;
  const bool at_rest = access == Access::kAtRest;
  try {
    connection->state_->database = std::make_unique<SQLite::Database>(
        at_rest ? AtRestUri(path) : path,
        (writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY) |
            (at_rest ? SQLITE_OPEN_URI : 0) | SQLITE_OPEN_NOMUTEX,
        kBusyTimeoutMs);
  } catch (const SQLite::Exception& error) {
    return SqlError(error.getErrorCode(), error.what(), path);
  }
  if (writes) {
    std::string mode;
    {
      Rows rows = connection->Query("PRAGMA journal_mode=WAL");
      if (rows.Next()) mode = rows.Text(0);
    }
    if (connection->status().ok() && mode != "wal") {
      return DatabaseError(
          absl::StatusCode::kFailedPrecondition,
          fmt::format("{} cannot be kept in WAL mode (it stays in '{}'): put it on a local disk, "
                      "not on a network file system",
                      path, mode));
    }
    connection->ExecuteScript(
        fmt::format("PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit={}", kJournalSizeLimit));
  } else {
    connection->ExecuteScript("PRAGMA query_only=ON; PRAGMA synchronous=NORMAL");
  }
  connection->ExecuteScript("PRAGMA foreign_keys=ON");
  // The first statement that reads the file: one that is no database shows here.
  connection->QueryInt("SELECT COUNT(*) FROM sqlite_schema");
  if (!connection->status().ok()) return connection->TakeStatus();
  return connection;
}

int64_t Connection::Execute(std::string_view sql, std::initializer_list<SqlValue> values) {
  Rows rows(*this, Prepare(sql, values));
  if (rows.cursor_ == nullptr) return 0;
  while (rows.Next()) {
  }
  return status_.ok() ? state_->database->getChanges() : 0;
}

void Connection::ExecuteScript(const std::string& sql) {
  if (!status_.ok()) return;
  const int code = state_->database->tryExec(sql.c_str());
  if (code != SQLITE_OK) FailSql(code, state_->database->getErrorMsg(), sql);
}

Rows Connection::Query(std::string_view sql, std::initializer_list<SqlValue> values) {
  return {*this, Prepare(sql, values)};
}

int64_t Connection::QueryInt(std::string_view sql, std::initializer_list<SqlValue> values) {
  Rows rows = Query(sql, values);
  return rows.Next() ? rows.Int(0) : 0;
}

int64_t Connection::last_insert_id() const { return state_->database->getLastInsertRowid(); }

int64_t Connection::total_changes() const { return state_->database->getTotalChanges(); }

absl::Status Connection::TakeStatus() { return std::exchange(status_, absl::OkStatus()); }

void Connection::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool Connection::in_transaction() const {
  return sqlite3_get_autocommit(state_->database->getHandle()) == 0;
}

Rows::Cursor* Connection::Prepare(std::string_view sql, std::initializer_list<SqlValue> values) {
  if (!status_.ok()) return nullptr;
  try {
    std::unique_ptr<Rows::Cursor> cursor;
    const auto idle = state_->idle.find(sql);
    if (idle != state_->idle.end() && !idle->second.empty()) {
      cursor = std::move(idle->second.back());
      idle->second.pop_back();
    } else {
      cursor = std::make_unique<Rows::Cursor>();
      cursor->sql = sql;
      cursor->statement = std::make_unique<SQLite::Statement>(*state_->database, cursor->sql);
    }
    SQLite::Statement& statement = *cursor->statement;
    int index = 0;
    for (const SqlValue& value : values) {
      ++index;
      if (const auto* integer = std::get_if<int64_t>(&value)) {
        statement.bind(index, *integer);
      } else if (const auto* text = std::get_if<std::string_view>(&value)) {
        statement.bind(index, std::string(*text));
      } else if (const auto* blob = std::get_if<Blob>(&value)) {
        // A null pointer would make it NULL.
        statement.bind(index,
                       blob->bytes.empty() ? "" : static_cast<const void*>(blob->bytes.data()),
                       static_cast<int>(blob->bytes.size()));
      } else {
        statement.bind(index);
      }
    }
    Rows::Cursor* raw = cursor.get();
    state_->in_use.emplace(raw, std::move(cursor));
    return raw;
  } catch (const SQLite::Exception& error) {
    FailSql(error.getErrorCode(), error.what(), sql);
    return nullptr;
  }
}

void Connection::FailSql(int code, std::string_view what, std::string_view sql) {
  Fail(SqlError(code, fmt::format("{} in '{}'", what, sql.substr(0, 120)), path_));
}

}  // namespace lcab::coordinator
