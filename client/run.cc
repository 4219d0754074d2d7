// `lcab-client run SUITE`: the whole thing here, without a server.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/interrupts.h"
#include "client/job_verbs.h"
#include "client/local_run.h"
#include "client/submission.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "suites/source.h"

namespace lcab::client {
namespace {

class RunVerb : public Verb {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override {
    return "Run a suite on this machine, without a server";
  }
  std::string_view details() const override {
    return "Checks the whole suite, runs it on as many CPU devices as its largest gang needs, and "
           "shows the results. They stay in the database, for `results --db`. An interrupt cancels "
           "what has not run yet; --resume goes on with it.";
  }
  std::string_view example() const override {
    return "lcab-client run quick\nlcab-client run suites/quick.yaml --db lcab.db --output csv\n"
           "lcab-client run suites/quick.yaml --resume";
  }
  std::vector<Argument> Arguments() override {
    std::vector<Argument> arguments = {
        SuiteArgument(&suite_),
        {.name = "resume",
         .target = &resume_,
         .description =
             "go on with the newest job of this suite in the database; results it has are kept"}};
    for (Argument& argument : run_.Arguments()) arguments.push_back(std::move(argument));
    return arguments;
  }

  ExitCode Run(Console& console) override {
    Interrupts interrupts;
    const absl::StatusOr<suites::SuiteSource> source = suites::LoadSuite(suite_);
    if (!source.ok()) return FailSuite(console, source.status());
    return run_.Run(*source, resume_, interrupts, console);
  }

 private:
  std::string suite_;
  bool resume_ = false;
  LocalRun run_;
};

}  // namespace

std::unique_ptr<Verb> MakeRunVerb() { return std::make_unique<RunVerb>(); }

}  // namespace lcab::client
