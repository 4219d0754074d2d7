// `lcab-client cancel JOB`: ends a job.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/coordinator_link.h"
#include "client/job_verbs.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "suites/enum_names.h"

namespace lcab::client {
namespace {

class CancelVerb : public Verb {
 public:
  std::string_view name() const override { return "cancel"; }
  std::string_view summary() const override { return "End a job; results that it has are kept"; }
  std::string_view example() const override { return "lcab-client cancel jobs/12"; }
  std::vector<Argument> Arguments() override {
    return {JobArgument(&job_), ServerArgument(&server_)};
  }
  ExitCode Run(Console& console) override {
    CoordinatorLink link(server_);
    v1::CancelJobRequest request;
    request.set_name(JobName(job_));
    v1::Job job;
    const absl::Status status = link.Call([&](grpc::ClientContext* context) {
      return link.jobs().CancelJob(context, request, &job);
    });
    if (!status.ok()) return Fail(console, status);
    console.out << fmt::format("{} is {}\n", job.name(), suites::Name(job.state()));
    return ExitCode::kOk;
  }

 private:
  std::string job_, server_;
};

}  // namespace

std::unique_ptr<Verb> MakeCancelVerb() { return std::make_unique<CancelVerb>(); }

}  // namespace lcab::client
