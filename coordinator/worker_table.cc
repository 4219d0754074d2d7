#include "coordinator/worker_table.h"

#include "coordinator/resource_names.h"

namespace lcab::coordinator {
namespace {

WorkerRow ReadWorker(const Rows& rows) {
  WorkerRow row{.id = rows.Text(0),
                .incarnation = rows.Text(1),
                .draining = rows.Int(3) != 0,
                .connected = rows.Time(4)};
  rows.Parse(2, row.info);
  return row;
}

}  // namespace

void StoreWorker(Connection& db, const v1::Hello& hello, absl::Time now) {
  v1::Worker info;
  info.set_name(WorkerName(hello.worker_id()));
  *info.mutable_devices() = hello.devices();
  *info.mutable_kernels() = hello.kernels();
  *info.mutable_environment() = hello.environment();
  *info.mutable_notes() = hello.notes();
  const std::string bytes = info.SerializeAsString();
  db.Execute(
      "INSERT INTO workers (id, incarnation, info, connected) VALUES (?, ?, ?, ?) ON CONFLICT (id) "
      "DO "
      "UPDATE SET incarnation = excluded.incarnation, info = excluded.info, connected = "
      "excluded.connected",
      {hello.worker_id(), hello.incarnation(), Blob{bytes}, ToSql(now)});
}

std::optional<WorkerRow> FindWorker(Connection& db, std::string_view id) {
  Rows rows =
      db.Query("SELECT id, incarnation, info, draining, connected FROM workers WHERE id = ?", {id});
  if (!rows.Next()) return std::nullopt;
  return ReadWorker(rows);
}

std::vector<WorkerRow> LoadWorkers(Connection& db, std::string_view after, int limit) {
  std::vector<WorkerRow> workers;
  for (Rows rows =
           db.Query("SELECT id, incarnation, info, draining, connected FROM workers WHERE id > "
                    "? ORDER BY id LIMIT ?",
                    {after, limit});
       rows.Next();) {
    workers.push_back(ReadWorker(rows));
  }
  return workers;
}

bool SetDraining(Connection& db, std::string_view id, bool draining) {
  return db.Execute("UPDATE workers SET draining = ? WHERE id = ?", {draining ? 1 : 0, id}) == 1;
}

bool Acknowledge(Connection& db, std::string_view worker, std::string_view incarnation,
                 int64_t sequence) {
  return db.Execute(
             "INSERT INTO acknowledged (worker, incarnation, sequence) VALUES (?1, ?2, ?3) ON "
             "CONFLICT "
             "(worker, incarnation) DO UPDATE SET sequence = ?3 WHERE sequence < ?3",
             {worker, incarnation, sequence}) == 1;
}

}  // namespace lcab::coordinator
