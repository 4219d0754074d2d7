#include "coordinator/fleet_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "coordinator/assignment_table.h"
#include "coordinator/resource_names.h"
#include "coordinator/worker_table.h"
#include "fmt/format.h"
#include "proto/proto_time.h"
#include "service/grpc_status.h"
#include "spdlog/spdlog.h"

namespace lcab::coordinator {
namespace {

using service::ToGrpc;

constexpr int kUsualPage = 100;
constexpr int kMostWorkers = 1000;

v1::Worker Describe(Connection& db, const WorkerRow& row, const std::vector<FleetMember>& members) {
  v1::Worker worker = row.info;
  worker.set_state(v1::WORKER_STATE_DISCONNECTED);
  *worker.mutable_connect_time() = ToProto(row.connected);
  for (const FleetMember& member : members) {
    if (member.worker != row.id) continue;
    worker.set_state(row.draining || member.stopping ? v1::WORKER_STATE_DRAINING
                                                     : v1::WORKER_STATE_CONNECTED);
    *worker.mutable_last_heartbeat_time() = ToProto(member.heard);
  }
  for (const AssignmentRow& assignment : AssignmentsOnWorker(db, row.id)) {
    worker.add_assignments(assignment.name);
  }
  return worker;
}

}  // namespace

grpc::Status FleetService::ListWorkers(grpc::ServerContext* /*context*/,
                                       const v1::ListWorkersRequest* request,
                                       v1::ListWorkersResponse* response) {
  const auto size = PageSize(request->page_size(), kUsualPage, kMostWorkers);
  if (!size.ok()) return ToGrpc(size.status());
  std::string after;
  if (!absl::WebSafeBase64Unescape(request->page_token(), &after)) {
    return ToGrpc(absl::InvalidArgumentError("the page token is not one of this list"));
  }
  const std::vector<FleetMember> members = core_.fleet().Members();
  return ToGrpc(core_.Read([&](Connection& db) {
    std::vector<WorkerRow> rows = LoadWorkers(db, after, *size + 1);
    if (static_cast<int>(rows.size()) > *size) {
      rows.pop_back();
      response->set_next_page_token(absl::WebSafeBase64Escape(rows.back().id));
    }
    for (const WorkerRow& row : rows) *response->add_workers() = Describe(db, row, members);
    return absl::OkStatus();
  }));
}

grpc::Status FleetService::DrainWorker(grpc::ServerContext* /*context*/,
                                       const v1::DrainWorkerRequest* request, v1::Worker* worker) {
  const auto id = ParseWorkerName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  absl::Status status = core_.Change([&](Step& step) {
    if (!SetDraining(step.db, *id, request->drain())) {
      return service::ErrorWithInfo(
          absl::StatusCode::kNotFound,
          fmt::format("there is no {}; `lcab-client workers` lists them", WorkerName(*id)),
          "WORKER_NOT_FOUND", {{"worker", WorkerName(*id)}});
    }
    SendToWorker send{.worker = *id};
    send.message.set_drain(request->drain());
    step.effects.actions.emplace_back(std::move(send));
    step.effects.schedule = true;
    return absl::OkStatus();
  });
  if (!status.ok()) return ToGrpc(status);
  spdlog::info("worker drained worker={} drain={}", *id, request->drain());
  const std::vector<FleetMember> members = core_.fleet().Members();
  return ToGrpc(core_.Read([&](Connection& db) {
    const auto row = FindWorker(db, *id);
    if (row.has_value()) *worker = Describe(db, *row, members);
    return absl::OkStatus();
  }));
}

}  // namespace lcab::coordinator
