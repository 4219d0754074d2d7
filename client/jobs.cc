// `lcab-client jobs`: lists jobs.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/coordinator_link.h"
#include "client/job_verbs.h"
#include "client/output.h"
#include "client/verb.h"
#include "client/verbs.h"

namespace lcab::client {
namespace {

class JobsVerb : public Verb {
 public:
  std::string_view name() const override { return "jobs"; }
  std::string_view summary() const override { return "List jobs, newest first"; }
  std::string_view example() const override {
    return "lcab-client jobs\nlcab-client jobs --limit 5 --output json";
  }
  std::vector<Argument> Arguments() override {
    return {{.name = "limit",
             .target = &limit_,
             .description = "how many jobs to list",
             .value = "N",
             .minimum = 1},
            OutputArgument(&output_),
            ServerArgument(&server_)};
  }
  ExitCode Run(Console& console) override {
    CoordinatorLink link(server_);
    std::vector<v1::Job> jobs;
    v1::ListJobsRequest request;
    do {
      request.set_page_size(static_cast<int32_t>(
          std::min<int64_t>(limit_ - static_cast<int64_t>(jobs.size()), 1000)));
      v1::ListJobsResponse response;
      const absl::Status status = link.Call([&](grpc::ClientContext* context) {
        return link.jobs().ListJobs(context, request, &response);
      });
      if (!status.ok()) return Fail(console, status);
      for (v1::Job& job : *response.mutable_jobs()) jobs.push_back(std::move(job));
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty() && static_cast<int64_t>(jobs.size()) < limit_);
    PrintJobs(jobs, output_, console);
    return ExitCode::kOk;
  }

 private:
  int64_t limit_ = 50;
  std::string output_, server_;
};

}  // namespace

std::unique_ptr<Verb> MakeJobsVerb() { return std::make_unique<JobsVerb>(); }

}  // namespace lcab::client
