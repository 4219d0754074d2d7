#include "client/follow.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "client/event_stream.h"
#include "client/job_exit_code.h"
#include "client/output.h"
#include "report/progress.h"
#include "report/results_table.h"
#include "report/rows.h"

namespace lcab::client {
namespace {

// How soon a signal or a passing second shows.
constexpr absl::Duration kTurn = absl::Milliseconds(100);
constexpr int kPageSize = 500;
// How long nothing happens before the coordinator is asked why, and between such questions.
constexpr absl::Duration kQuiet = absl::Seconds(2);
// How long such a question may keep the progress and a signal waiting.
constexpr absl::Duration kAnswer = absl::Seconds(1);

// Says why nothing of a job runs, once for each reason: its events tell only of what happens.
class WaitingNotes {
 public:
  void Happened() { ask_at_ = absl::Now() + kQuiet; }
  void Ask(CoordinatorLink& link, const std::string& job, report::Progress& progress) {
    if (absl::Now() < ask_at_) return;
    const absl::StatusOr<v1::Job> found = GetJob(link, job, kAnswer);
    ask_at_ = absl::Now() + kQuiet;
    // That the coordinator does not answer is told by the stream of events.
    if (!found.ok() || found->counts().running() > 0) return;
    if (found->waiting_reason().empty() || found->waiting_reason() == told_) return;
    told_ = found->waiting_reason();
    progress.Note(fmt::format("{} waits: {}", job, told_));
  }

 private:
  absl::Time ask_at_ = absl::Now() + kQuiet;
  std::string told_;
};

}  // namespace

absl::StatusOr<v1::Job> Follow(CoordinatorLink& link, const std::string& job,
                               const Interrupts& interrupts, const FollowOptions& options,
                               Console& console) {
  // A coordinator that was never there is an error at once, not one to wait for.
  if (absl::StatusOr<v1::Job> found = GetJob(link, job); !found.ok()) return found;
  report::Progress progress(console.err, console.err_terminal);
  EventStream events(link, job, options.after_sequence, options.patience);
  WaitingNotes waiting;
  bool interrupted = false;
  bool was_away = false;
  while (!events.over()) {
    if (std::optional<v1::JobEvent> event = events.Next(kTurn); event.has_value()) {
      progress.Show(*event, absl::Now());
      waiting.Happened();
    } else {
      progress.Tick(absl::Now());
      if (!events.away()) waiting.Ask(link, job, progress);
    }
    if (const bool away = events.away(); away != was_away) {
      progress.Note(
          away ? fmt::format("the coordinator at {} is away; waiting for it", link.address())
               : std::string("the coordinator is back"));
      was_away = away;
    }
    if (options.check) {
      if (absl::Status status = options.check(); !status.ok()) return status;
    }
    if (interrupts.count() > 0 && !std::exchange(interrupted, true) && options.on_interrupt &&
        !options.on_interrupt()) {
      return absl::CancelledError("stopped");
    }
  }
  progress.Finish();
  if (!events.status().ok()) return events.status();
  return GetJob(link, job);
}

absl::StatusOr<v1::Job> GetJob(CoordinatorLink& link, const std::string& job,
                               absl::Duration timeout) {
  v1::GetJobRequest request;
  request.set_name(job);
  v1::Job result;
  const absl::Status status = link.Call(
      [&](grpc::ClientContext* context) { return link.jobs().GetJob(context, request, &result); },
      timeout);
  if (!status.ok()) return status;
  return result;
}

absl::StatusOr<std::vector<v1::Trial>> ListTrials(CoordinatorLink& link, const std::string& job) {
  std::vector<v1::Trial> trials;
  v1::ListTrialsRequest request;
  request.set_parent(job);
  request.set_page_size(kPageSize);
  do {
    v1::ListTrialsResponse response;
    absl::Status status = link.Call([&](grpc::ClientContext* context) {
      return link.jobs().ListTrials(context, request, &response);
    });
    if (!status.ok()) return status;
    for (v1::Trial& trial : *response.mutable_trials()) trials.push_back(std::move(trial));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return trials;
}

ExitCode PrintResults(CoordinatorLink& link, const v1::Job& job, const std::string& output,
                      Console& console) {
  const absl::StatusOr<std::vector<v1::Trial>> trials = ListTrials(link, job.name());
  if (!trials.ok()) return Fail(console, trials.status());
  if (output == kTable) {
    console.out << report::ResultsTable(*trials, console.out_terminal);
  } else {
    PrintRows(console, output, report::ResultRows(*trials));
  }
  return JobExitCode(job.counts());
}

}  // namespace lcab::client
