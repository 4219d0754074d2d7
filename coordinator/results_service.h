// Results over gRPC: see results.proto.

#ifndef LCAB_COORDINATOR_RESULTS_SERVICE_H_
#define LCAB_COORDINATOR_RESULTS_SERVICE_H_

#include <functional>

#include "absl/status/status.h"
#include "coordinator/connection.h"
#include "coordinator/core.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/sync_stream.h"
#include "lcab/v1/results.grpc.pb.h"

namespace lcab::coordinator {

// How results are read: with the coordinator's store, or with a Reader of a file.
using ReadFunction =
    std::function<absl::Status(const std::function<absl::Status(Connection&)>& read)>;

// One page of results. `next_page_token` is empty after the last.
absl::Status QueryResults(const ReadFunction& read, const v1::QueryResultsRequest& request,
                          v1::QueryResultsResponse& response);

class ResultsService final : public v1::Results::Service {
 public:
  explicit ResultsService(Core& core) : core_(core) {}

  grpc::Status QueryResults(grpc::ServerContext* context, const v1::QueryResultsRequest* request,
                            v1::QueryResultsResponse* response) override;
  grpc::Status ExportResults(grpc::ServerContext* context, const v1::ExportResultsRequest* request,
                             grpc::ServerWriter<v1::ExportedResult>* writer) override;

 private:
  absl::Status Export(const v1::ExportResultsRequest& request,
                      grpc::ServerWriter<v1::ExportedResult>& writer);
  absl::Status ExportSamples(const v1::Trial& trial,
                             grpc::ServerWriter<v1::ExportedResult>& writer);

  Core& core_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_RESULTS_SERVICE_H_
