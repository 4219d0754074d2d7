// Jobs over gRPC: see jobs.proto.

#ifndef LCAB_COORDINATOR_JOBS_SERVICE_H_
#define LCAB_COORDINATOR_JOBS_SERVICE_H_

#include "coordinator/core.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/sync_stream.h"
#include "lcab/v1/jobs.grpc.pb.h"

namespace lcab::coordinator {

class JobsService final : public v1::Jobs::Service {
 public:
  explicit JobsService(Core& core) : core_(core) {}

  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::Job* job) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* job) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* job) override;
  grpc::Status RetryJob(grpc::ServerContext* context, const v1::RetryJobRequest* request,
                        v1::Job* job) override;
  grpc::Status ListTrials(grpc::ServerContext* context, const v1::ListTrialsRequest* request,
                          v1::ListTrialsResponse* response) override;
  grpc::Status GetTrial(grpc::ServerContext* context, const v1::GetTrialRequest* request,
                        v1::Trial* trial) override;
  grpc::Status GetTrialLogs(grpc::ServerContext* context, const v1::GetTrialLogsRequest* request,
                            grpc::ServerWriter<v1::LogChunk>* writer) override;

 private:
  absl::Status Load(int64_t id, v1::Job* job);
  absl::Status Submit(const v1::SubmitJobRequest& request, v1::Job* job);
  absl::Status Watch(grpc::ServerContext& context, const v1::WatchJobRequest& request,
                     grpc::ServerWriter<v1::JobEvent>& writer);
  absl::Status ReadLogs(const v1::GetTrialLogsRequest& request,
                        grpc::ServerWriter<v1::LogChunk>& writer);

  Core& core_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_JOBS_SERVICE_H_
