#include "client/local_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_link.h"
#include "client/event_stream.h"
#include "client/follow.h"
#include "client/job_verbs.h"
#include "client/local_coordinator.h"
#include "client/output.h"
#include "client/submission.h"
#include "proto/visible_text.h"
#include "service/logging.h"
#include "suites/catalogue.h"
#include "suites/expand.h"
#include "suites/parse.h"
#include "worker/worker.h"

namespace lcab::client {
namespace {

// How often an interrupt is looked for while a job is waited for.
constexpr absl::Duration kTurn = absl::Milliseconds(100);
// Of the coordinator in this process, which is not away for long.
constexpr absl::Duration kCancelTimeout = absl::Minutes(1);

// Devices of the largest gang.
absl::StatusOr<int> LargestGang(const suites::SuiteSource& source) {
  const suites::Catalogue catalogue = suites::Catalogue::Builtin();
  const absl::StatusOr<suites::Suite> suite = suites::ParseSuite(source, catalogue);
  if (!suite.ok()) return suite.status();
  const absl::StatusOr<suites::Expansion> expansion = suites::Expand(*suite, catalogue);
  if (!expansion.ok()) return expansion.status();
  int devices = 1;
  for (const v1::CohortSpec& cohort : expansion->cohorts) {
    const int shared = std::max(1, cohort.ranks_per_device());
    devices = std::max(devices, (cohort.ranks() + shared - 1) / shared);
  }
  return devices;
}

// A run that was stopped at once left its job being cancelled: that ends first.
absl::StatusOr<v1::Job> WaitForTheCancel(CoordinatorLink& link, const std::string& job,
                                         const Interrupts& interrupts) {
  EventStream events(link, job, /*after_sequence=*/0, kCancelTimeout);
  while (!events.over()) {
    events.Next(kTurn);
    if (interrupts.count() > 0) return absl::CancelledError("stopped before anything ran");
  }
  if (!events.status().ok()) return events.status();
  return GetJob(link, job);
}

// The newest job of the same suite, however many others came after it; nothing where there is none.
absl::StatusOr<std::optional<v1::Job>> NewestOf(CoordinatorLink& link,
                                                const std::string& suite_text) {
  v1::ListJobsRequest list;
  do {
    v1::ListJobsResponse jobs;
    const absl::Status status = link.Call(
        [&](grpc::ClientContext* context) { return link.jobs().ListJobs(context, list, &jobs); });
    if (!status.ok()) return status;
    for (const v1::Job& listed : jobs.jobs()) {
      absl::StatusOr<v1::Job> job = GetJob(link, listed.name());  // lists leave the text out
      if (!job.ok()) return job.status();
      if (job->suite_text() == suite_text) return *std::move(job);
    }
    list.set_page_token(jobs.next_page_token());
  } while (!list.page_token().empty());
  return std::nullopt;
}

// The newest job of the same suite, with what failed for other reasons than its result queued
// again; empty where there is none.
absl::StatusOr<std::string> FindEarlier(CoordinatorLink& link, const std::string& suite_text,
                                        const Interrupts& interrupts) {
  const absl::StatusOr<std::optional<v1::Job>> found = NewestOf(link, suite_text);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return std::string();
  v1::Job job = **found;
  if (job.state() == v1::JOB_STATE_CANCELLING) {
    absl::StatusOr<v1::Job> ended = WaitForTheCancel(link, job.name(), interrupts);
    if (!ended.ok()) return ended.status();
    job = *std::move(ended);
  }
  if (job.state() == v1::JOB_STATE_FAILED || job.state() == v1::JOB_STATE_CANCELLED) {
    v1::RetryJobRequest retry;
    retry.set_name(job.name());
    v1::Job retried;
    const absl::Status status = link.Call([&](grpc::ClientContext* context) {
      return link.jobs().RetryJob(context, retry, &retried);
    });
    // It ended with results that trying again would not change.
    if (!status.ok() && !absl::IsFailedPrecondition(status)) return status;
  }
  return job.name();
}

}  // namespace

std::vector<Argument> LocalRun::Arguments() {
  return {{.name = "db",
           .target = &db_,
           .description = "file for the results; made where there is none",
           .value = "FILE"},
          {.name = "cpu-slots",
           .target = &cpu_slots_,
           .description = "CPU devices to divide this machine into; 0: as the largest gang needs",
           .value = "N",
           .minimum = 0,
           .maximum = 1024},
          {.name = "runner",
           .target = &runner_,
           .description = "the lcab-runner program; empty: the one beside this program",
           .value = "FILE"},
          {.name = "log-level",
           .target = &log_level_,
           .description = "what coordinator and worker log on standard error",
           .choices = {"trace", "debug", "info", "warn", "error", "off"}},
          OutputArgument(&output_)};
}

ExitCode LocalRun::Run(const suites::SuiteSource& source, bool resume, Interrupts& interrupts,
                       Console& console) {
  if (const absl::Status status = service::SetUpLogging(log_level_); !status.ok()) {
    return Fail(console, status);
  }
  const absl::StatusOr<int> gang = LargestGang(source);
  if (!gang.ok()) return FailSuite(console, gang.status());
  const auto local = LocalCoordinator::Start(
      {.db = db_,
       .cpu_slots = cpu_slots_ != 0 ? cpu_slots_ : *gang,
       .runner = runner_.empty() ? worker::RunnerBesideThisProgram() : runner_});
  if (!local.ok()) return Fail(console, local.status());
  interrupts.BeforeTheEnd(
      [folder = (*local)->folder()] {
        std::error_code ignored;  // a folder that is left in /tmp does no harm
        std::filesystem::remove_all(folder, ignored);
      },
      fmt::format("Stopped at once. `lcab-client run` of the same suite with --db {} --resume goes "
                  "on with it.\n",
                  VisibleText(db_)));
  CoordinatorLink link((*local)->address());
  const absl::StatusOr<std::string> job = FindOrSubmit(link, source, resume, interrupts, console);
  if (!job.ok()) return FailSuite(console, job.status());
  return FollowJob(**local, link, *job, interrupts, console);
}

absl::StatusOr<std::string> LocalRun::FindOrSubmit(CoordinatorLink& link,
                                                   const suites::SuiteSource& source, bool resume,
                                                   const Interrupts& interrupts,
                                                   Console& console) const {
  if (resume) {
    absl::StatusOr<std::string> earlier = FindEarlier(link, source.text, interrupts);
    if (!earlier.ok() || !earlier->empty()) return earlier;
    console.err << fmt::format("There is no job of this suite in {}: starting anew.\n",
                               VisibleText(db_));
  }
  // Nobody else reads who it was here, so an odd name is no reason to refuse.
  const std::string user = Submitter();
  const absl::StatusOr<v1::Job> job =
      Submit(link, source, CheckSubmitter(user).ok() ? user : std::string());
  if (!job.ok()) return job.status();
  return job->name();
}

ExitCode LocalRun::FollowJob(const LocalCoordinator& local, CoordinatorLink& link,
                             const std::string& job, Interrupts& interrupts,
                             Console& console) const {
  const auto cancel = [&] {
    console.err << "\nCancelling; interrupt again to stop at once.\n";
    v1::CancelJobRequest request;
    request.set_name(job);
    v1::Job cancelled;
    const absl::Status status = link.Call([&](grpc::ClientContext* context) {
      return link.jobs().CancelJob(context, request, &cancelled);
    });
    // A job that has ended meanwhile cannot be cancelled, and need not be.
    if (!status.ok() && !absl::IsFailedPrecondition(status)) {
      Fail(console, absl::Status(status.code(), fmt::format("cannot cancel {}: {}", job,
                                                            std::string(status.message()))));
    }
    return true;
  };
  const absl::StatusOr<v1::Job> ended =
      Follow(link, job, interrupts,
             {.on_interrupt = cancel, .check = [&] { return local.StoreFailure(); }}, console);
  // Whatever following met: nothing can be stored, and what runs is not waited for.
  if (const absl::Status failure = local.StoreFailure(); !failure.ok()) {
    const ExitCode code = Fail(console, failure);
    console.err << fmt::format(
        "The run has ended; results until then are kept. Once the database can be written,\n"
        "`lcab-client run` of the same suite with --db {} --resume goes on with it.\n",
        VisibleText(db_));
    console.err.flush();
    interrupts.EndNow(code);
  }
  if (!ended.ok()) return Fail(console, ended.status());
  const ExitCode code = PrintResults(link, *ended, output_, console);
  if (output_ == kTable) {
    console.err << fmt::format("{} is kept in {}; see it again with: lcab-client results --db {}\n",
                               job, VisibleText(db_), VisibleText(db_));
  }
  return code;
}

}  // namespace lcab::client
