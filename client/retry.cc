// `lcab-client retry JOB`: queues failed trials again.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/coordinator_link.h"
#include "client/interrupts.h"
#include "client/job_verbs.h"
#include "client/output.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"

namespace lcab::client {
namespace {

class RetryVerb : public Verb {
 public:
  std::string_view name() const override { return "retry"; }
  std::string_view summary() const override {
    return "Queue again the trials of a job that failed for other reasons than their result";
  }
  std::string_view details() const override {
    return "Those that ended crashed, timed_out, out_of_memory, lost or cancelled. Results that "
           "are ok, wrong_result or unsupported stay.";
  }
  std::string_view example() const override { return "lcab-client retry jobs/12 --watch"; }
  std::vector<Argument> Arguments() override {
    return {JobArgument(&job_),
            {.name = "watch", .target = &watch_, .description = "follow the job to its end"},
            OutputArgument(&output_),
            ServerArgument(&server_)};
  }
  ExitCode Run(Console& console) override {
    Interrupts interrupts;
    CoordinatorLink link(server_);
    v1::RetryJobRequest request;
    request.set_name(JobName(job_));
    v1::Job job;
    const absl::Status status = link.Call(
        [&](grpc::ClientContext* context) { return link.jobs().RetryJob(context, request, &job); });
    if (!status.ok()) return Fail(console, status);
    if (watch_) return WatchJob(link, job.name(), 0, output_, interrupts, console);
    console.out << fmt::format("{}: {} trials are queued again\n", job.name(),
                               job.counts().pending());
    return ExitCode::kOk;
  }

 private:
  std::string job_, output_, server_;
  bool watch_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeRetryVerb() { return std::make_unique<RetryVerb>(); }

}  // namespace lcab::client
