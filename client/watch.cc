// `lcab-client watch JOB`: follows a job to its end.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/coordinator_link.h"
#include "client/interrupts.h"
#include "client/job_verbs.h"
#include "client/output.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"

namespace lcab::client {
namespace {

class WatchVerb : public Verb {
 public:
  std::string_view name() const override { return "watch"; }
  std::string_view summary() const override { return "Follow a job to its end, then show results"; }
  std::string_view details() const override {
    return "Goes on where it was when the coordinator restarts. An interrupt ends the watching, "
           "not "
           "the job.";
  }
  std::string_view example() const override { return "lcab-client watch jobs/12"; }
  std::vector<Argument> Arguments() override {
    return {JobArgument(&job_), OutputArgument(&output_), ServerArgument(&server_)};
  }
  ExitCode Run(Console& console) override {
    Interrupts interrupts;
    CoordinatorLink link(server_);
    return WatchJob(link, JobName(job_), 0, output_, interrupts, console);
  }

 private:
  std::string job_, output_, server_;
};

}  // namespace

std::unique_ptr<Verb> MakeWatchVerb() { return std::make_unique<WatchVerb>(); }

}  // namespace lcab::client
