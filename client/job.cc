// `lcab-client job JOB`: what became of a job, trial by trial and attempt by attempt.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/coordinator_link.h"
#include "client/follow.h"
#include "client/job_verbs.h"
#include "client/output.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "proto/proto_time.h"
#include "proto/visible_text.h"
#include "report/quantities.h"
#include "report/rows.h"
#include "report/table.h"
#include "suites/enum_names.h"
#include "suites/labels.h"

namespace lcab::client {
namespace {

using report::Tone;

Tone ToneOf(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_OK:
      return Tone::kGood;
    case v1::OUTCOME_UNSPECIFIED:
      return Tone::kPlain;
    case v1::OUTCOME_UNSUPPORTED:
    case v1::OUTCOME_CANCELLED:
      return Tone::kFaint;
    default:
      return Tone::kBad;
  }
}

// "attempt 1 on w1, after 1.2 s: crashed: rank 0's runner ..."
std::string AttemptText(const v1::Attempt& attempt) {
  std::string text = fmt::format("attempt {}", attempt.number());
  if (!attempt.workers().empty()) text += fmt::format(" on {}", fmt::join(attempt.workers(), ", "));
  if (attempt.has_start_time() && attempt.has_end_time()) {
    text += fmt::format(
        ", after {}", report::SecondsText(absl::ToDoubleSeconds(FromProto(attempt.end_time()) -
                                                                FromProto(attempt.start_time()))));
  }
  text += ": ";
  text += attempt.outcome() == v1::OUTCOME_UNSPECIFIED ? std::string("running")
                                                       : suites::Name(attempt.outcome());
  if (!attempt.reason().empty()) text += fmt::format(": {}", attempt.reason());
  return text;
}

class JobVerb : public Verb {
 public:
  std::string_view name() const override { return "job"; }
  std::string_view summary() const override {
    return "Tell what became of a job: its trials and every attempt at them";
  }
  std::string_view example() const override {
    return "lcab-client job jobs/12\nlcab-client job 12 --output json";
  }
  std::vector<Argument> Arguments() override {
    return {JobArgument(&job_), OutputArgument(&output_), ServerArgument(&server_)};
  }

  ExitCode Run(Console& console) override {
    CoordinatorLink link(server_);
    const absl::StatusOr<v1::Job> found = GetJob(link, JobName(job_));
    if (!found.ok()) return Fail(console, found.status());
    const v1::Job& job = *found;
    const absl::StatusOr<std::vector<v1::Trial>> trials = ListTrials(link, job.name());
    if (!trials.ok()) return Fail(console, trials.status());
    if (output_ != kTable) {
      PrintRows(console, output_, report::ResultRows(*trials));
    } else {
      PrintJobs({job}, kTable, console);
      if (!job.waiting_reason().empty()) {
        console.out << fmt::format("\nwaits: {}\n", VisibleText(job.waiting_reason()));
      }
      console.out << '\n' << TrialTable(*trials).Render(console.out_terminal);
    }
    return ExitCode::kOk;
  }

 private:
  static report::Table TrialTable(const std::vector<v1::Trial>& trials) {
    report::Table table({{"trial"},
                         {.title = "what", .may_shrink = true},
                         {"state"},
                         {.title = "attempts", .align = report::Align::kRight}});
    for (const v1::Trial& trial : trials) {
      const v1::Outcome outcome = trial.result().outcome();
      const bool done = trial.state() == v1::TRIAL_STATE_DONE;
      table.AddRow({trial.name(),
                    suites::TrialLabel(trial.spec()),
                    {done ? suites::Name(outcome) : suites::Name(trial.state()),
                     done ? ToneOf(outcome) : Tone::kPlain},
                    fmt::format("{}", trial.attempts_size())});
      // One attempt that went well is no news.
      if (trial.attempts_size() == 1 && outcome == v1::OUTCOME_OK) continue;
      for (const v1::Attempt& attempt : trial.attempts()) {
        table.AddNote(AttemptText(attempt), Tone::kFaint);
      }
      if (trial.attempts().empty() && !trial.result().reason().empty()) {
        table.AddNote(trial.result().reason(), Tone::kFaint);
      }
    }
    return table;
  }

  std::string job_, output_, server_;
};

}  // namespace

std::unique_ptr<Verb> MakeJobVerb() { return std::make_unique<JobVerb>(); }

}  // namespace lcab::client
