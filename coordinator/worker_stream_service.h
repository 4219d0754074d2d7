// The stream that each worker keeps: see WorkerStream in fleet.proto for what travels in which
// order.

#ifndef LCAB_COORDINATOR_WORKER_STREAM_SERVICE_H_
#define LCAB_COORDINATOR_WORKER_STREAM_SERVICE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/core.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/sync_stream.h"
#include "lcab/v1/fleet.grpc.pb.h"

namespace lcab::coordinator {

class WorkerStreamService final : public v1::WorkerStream::Service {
 public:
  explicit WorkerStreamService(Core& core) : core_(core) {}

  grpc::Status Connect(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::ToWorker, v1::FromWorker>* stream) override;

 private:
  Core& core_;
};

// Not ok when the hello cannot be from a worker that this coordinator understands.
absl::Status CheckHello(const v1::Hello& hello);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_WORKER_STREAM_SERVICE_H_
