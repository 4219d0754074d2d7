#include "client/job_verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "client/follow.h"
#include "client/listing.h"
#include "client/output.h"
#include "client/resource_names.h"
#include "proto/proto_time.h"
#include "report/progress.h"
#include "report/quantities.h"
#include "suites/enum_names.h"

namespace lcab::client {
namespace {

using report::Align;

Listing::Value TimeValue(bool has, const google::protobuf::Timestamp& time) {
  if (!has) return {};
  const absl::Time at = FromProto(time);
  return {
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", at, absl::UTCTimeZone()),
      fmt::format("{} ago", report::WaitText(std::max(absl::Now() - at, absl::ZeroDuration())))};
}

}  // namespace

ExitCode FailSuite(Console& console, const absl::Status& status) {
  const bool of_suite =
      !IsOfDatabase(status) && (absl::IsInvalidArgument(status) || absl::IsNotFound(status));
  return of_suite ? Fail(console, ExitCode::kSuite, std::string(status.message()))
                  : Fail(console, status);
}

Argument JobArgument(std::string* job) {
  return {.name = "job",
          .target = job,
          .description = "the job, as jobs/12 or 12",
          .form = Form::kPositional,
          .required = true,
          .value = "JOB",
          .check = [job] { return CheckJob(*job); }};
}

Argument TrialArgument(std::string* trial) {
  return {.name = "trial",
          .target = trial,
          .description = "the trial, as jobs/12/trials/3 or 12/3",
          .form = Form::kPositional,
          .required = true,
          .value = "TRIAL",
          .check = [trial] { return CheckTrial(*trial); }};
}

void PrintJobs(const std::vector<v1::Job>& jobs, const std::string& output, Console& console) {
  Listing listing({{.name = "job"},
                   {.name = "suite", .may_shrink = true},
                   {.name = "state"},
                   {.name = "done", .align = Align::kRight},
                   {.name = "trials", .align = Align::kRight},
                   {.name = "not_ok", .align = Align::kRight},
                   {.name = "submitter", .may_shrink = true},
                   {.name = "created"},
                   {.name = "started", .in_table = false},
                   {.name = "ended", .in_table = false},
                   {.name = "waits_for", .may_shrink = true}});
  for (const v1::Job& job : jobs) {
    const int64_t done = report::Ended(job.counts());
    const auto text = [](const std::string& value) {
      return Listing::Value{value.empty() ? report::FieldValue() : report::FieldValue(value)};
    };
    listing.Add({{job.name()},
                 text(job.suite_name()),
                 {suites::Name(job.state())},
                 {done},
                 {job.counts().total()},
                 {done - job.counts().ok() - job.counts().unsupported()},
                 text(job.submitter()),
                 TimeValue(job.has_create_time(), job.create_time()),
                 TimeValue(job.has_start_time(), job.start_time()),
                 TimeValue(job.has_end_time(), job.end_time()),
                 text(job.waiting_reason())});
  }
  listing.Print(console, output,
                "There are no jobs. Submit one with: lcab-client submit suites/quick.yaml");
}

ExitCode WatchJob(CoordinatorLink& link, const std::string& job, int64_t after_sequence,
                  const std::string& output, const Interrupts& interrupts, Console& console) {
  const absl::StatusOr<v1::Job> ended =
      Follow(link, job, interrupts,
             {.after_sequence = after_sequence, .on_interrupt = [] { return false; }}, console);
  if (absl::IsCancelled(ended.status())) {
    console.err << fmt::format(
        "Stopped watching; {0} goes on. Watch it again with: lcab-client watch {0}\n", job);
    return ExitCode::kCancelled;
  }
  if (!ended.ok()) return Fail(console, ended.status());
  return PrintResults(link, *ended, output, console);
}

}  // namespace lcab::client
