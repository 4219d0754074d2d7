// `lcab-client repro TRIAL`: a stored trial again, alone.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/coordinator_link.h"
#include "client/interrupts.h"
#include "client/job_verbs.h"
#include "client/local_coordinator.h"
#include "client/local_run.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "proto/visible_text.h"
#include "suites/enum_names.h"
#include "suites/labels.h"
#include "suites/reproduce.h"

namespace lcab::client {
namespace {

class ReproVerb : public Verb {
 public:
  std::string_view name() const override { return "repro"; }
  std::string_view summary() const override {
    return "Print the suite that is one stored trial, or run it here";
  }
  std::string_view details() const override {
    return "Inputs, masks and plans follow from the trial alone, so they are the same bits again. "
           "The suite says in comments what the trial came to and where, to compare with.";
  }
  std::string_view example() const override {
    return "lcab-client repro jobs/12/trials/3 > trial.yaml\n"
           "lcab-client repro 12/3 --from lcab.db --run --db repro.db";
  }
  std::vector<Argument> Arguments() override {
    std::vector<Argument> arguments = {
        TrialArgument(&trial_),
        {.name = "from",
         .target = &from_,
         .description = "look in this file in place of asking a coordinator",
         .value = "FILE"},
        {.name = "run",
         .target = &run_here_,
         .description = "run it here in place of printing it"}};
    for (Argument& argument : run_.Arguments()) arguments.push_back(std::move(argument));
    arguments.push_back(ServerArgument(&server_));
    return arguments;
  }

  ExitCode Run(Console& console) override {
    Interrupts interrupts;
    v1::Trial trial;
    if (const absl::Status status = Find(&trial); !status.ok()) return Fail(console, status);
    const absl::StatusOr<std::string> suite = suites::SuiteText(trial.spec());
    if (!suite.ok()) return Fail(console, suite.status());
    const std::string text = Comment(trial) + *suite;
    if (!run_here_) {
      // A suite that is piped on has none of what this takes out.
      console.out << VisibleLines(text);
      return ExitCode::kOk;
    }
    return run_.Run({.file_name = "repro", .text = text}, /*resume=*/false, interrupts, console);
  }

 private:
  absl::Status Find(v1::Trial* trial) const {
    std::unique_ptr<LocalCoordinator> local;
    std::string address = server_;
    if (!from_.empty()) {
      auto opened = LocalCoordinator::OpenReadOnly(from_);
      if (!opened.ok()) return opened.status();
      local = *std::move(opened);
      address = local->address();
    }
    CoordinatorLink link(address);
    v1::GetTrialRequest request;
    request.set_name(TrialName(trial_));
    return link.Call([&](grpc::ClientContext* context) {
      return link.jobs().GetTrial(context, request, trial);
    });
  }

  static std::string Comment(const v1::Trial& trial) {
    const v1::TrialResult& result = trial.result();
    const v1::Environment& environment = result.environment();
    std::string text = fmt::format("# {}: {}\n", trial.name(), suites::TrialLabel(trial.spec()));
    if (trial.state() == v1::TRIAL_STATE_DONE) {
      text += fmt::format("# It was {}", suites::Name(result.outcome()));
      if (result.statistics().samples() > 0) {
        text += fmt::format(", median {} s of {} samples", result.statistics().median_seconds(),
                            result.statistics().samples());
      }
      text += '\n';
    }
    if (!environment.cpu_model().empty()) {
      text += fmt::format(
          "# on {}, {}, lcab {} ({})\n", environment.hostname(),
          environment.device_model().empty() ? environment.cpu_model() : environment.device_model(),
          environment.lcab_version(), environment.lcab_commit());
    }
    return text;
  }

  std::string trial_, from_, server_;
  bool run_here_ = false;
  LocalRun run_;
};

}  // namespace

std::unique_ptr<Verb> MakeReproVerb() { return std::make_unique<ReproVerb>(); }

}  // namespace lcab::client
