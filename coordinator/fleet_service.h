// The fleet over gRPC: see fleet.proto.

#ifndef LCAB_COORDINATOR_FLEET_SERVICE_H_
#define LCAB_COORDINATOR_FLEET_SERVICE_H_

#include "coordinator/core.h"
#include "grpcpp/server_context.h"
#include "lcab/v1/fleet.grpc.pb.h"

namespace lcab::coordinator {

class FleetService final : public v1::Fleet::Service {
 public:
  explicit FleetService(Core& core) : core_(core) {}

  grpc::Status ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override;
  grpc::Status DrainWorker(grpc::ServerContext* context, const v1::DrainWorkerRequest* request,
                           v1::Worker* worker) override;

 private:
  Core& core_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_FLEET_SERVICE_H_
