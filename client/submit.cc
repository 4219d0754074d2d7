// `lcab-client submit SUITE`: hands a suite to a coordinator.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/coordinator_link.h"
#include "client/follow.h"
#include "client/interrupts.h"
#include "client/job_verbs.h"
#include "client/output.h"
#include "client/submission.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "suites/source.h"

namespace lcab::client {
namespace {

class SubmitVerb : public Verb {
 public:
  std::string_view name() const override { return "submit"; }
  std::string_view summary() const override { return "Hand a suite to a coordinator"; }
  std::string_view details() const override {
    return "Prints the new job's name. The coordinator checks the whole suite first and refuses it "
           "before anything runs when something is wrong with it.";
  }
  std::string_view example() const override {
    return "lcab-client submit suites/quick.yaml --watch\n"
           "lcab-client submit quick --server node-1:7750";
  }
  std::vector<Argument> Arguments() override {
    return {SuiteArgument(&suite_),
            {.name = "watch", .target = &watch_, .description = "follow the job to its end"},
            {.name = "submitter",
             .target = &submitter_,
             .description = "who submits, for sharing the fleet fairly; empty: you",
             .value = "NAME",
             .environment = "LCAB_SUBMITTER",
             .check = [this] { return CheckSubmitter(WhoSubmits()); }},
            OutputArgument(&output_),
            ServerArgument(&server_)};
  }

  ExitCode Run(Console& console) override {
    Interrupts interrupts;
    const absl::StatusOr<suites::SuiteSource> source = suites::LoadSuite(suite_);
    if (!source.ok()) return FailSuite(console, source.status());
    CoordinatorLink link(server_);
    const absl::StatusOr<v1::Job> job = Submit(link, *source, WhoSubmits());
    if (!job.ok()) return FailSuite(console, job.status());
    if (watch_) return WatchJob(link, job->name(), 0, output_, interrupts, console);
    if (output_ != kTable) {
      PrintJobs({*job}, output_, console);
    } else {
      console.out << job->name() << '\n';
      console.err << fmt::format("{} trials are queued. Follow them with: lcab-client watch {}\n",
                                 job->counts().total(), job->name());
    }
    return ExitCode::kOk;
  }

 private:
  std::string WhoSubmits() const { return submitter_.empty() ? Submitter() : submitter_; }

  std::string suite_, submitter_, output_, server_;
  bool watch_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeSubmitVerb() { return std::make_unique<SubmitVerb>(); }

}  // namespace lcab::client
