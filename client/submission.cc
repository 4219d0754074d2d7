#include "client/submission.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <random>

#include "absl/status/status.h"
#include "coordinator/submission.h"

namespace lcab::client {
namespace {

std::string MakeRequestId() {
  std::random_device device;
  const auto word = [&device] { return uint64_t{device()} << 32 | device(); };
  return fmt::format("{:016x}{:016x}", word(), word());
}

}  // namespace

Argument SuiteArgument(std::string* suite) {
  return {.name = "suite",
          .target = suite,
          .description = "a YAML file, or the name of a suite that ships",
          .form = Form::kPositional,
          .required = true,
          .value = "SUITE"};
}

std::string Submitter() {
  const char* user = std::getenv("USER");
  return user == nullptr ? std::string() : std::string(user);
}

absl::Status CheckSubmitter(std::string_view submitter) {
  return coordinator::CheckSubmitter(submitter);
}

absl::StatusOr<v1::Job> Submit(CoordinatorLink& link, const suites::SuiteSource& source,
                               const std::string& submitter) {
  v1::SubmitJobRequest request;
  request.set_request_id(MakeRequestId());
  request.set_suite_text(source.text);
  request.set_file_name(source.file_name);
  request.set_submitter(submitter);
  for (const auto& [name, contents] : source.files) (*request.mutable_files())[name] = contents;
  v1::Job job;
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    status = link.Call([&](grpc::ClientContext* context) {
      context->set_wait_for_ready(attempt > 0);
      return link.jobs().SubmitJob(context, request, &job);
    });
    if (status.ok()) return job;
    // Only where the call itself may have got through.
    if (!absl::IsDeadlineExceeded(status)) return status;
  }
  return status;
}

}  // namespace lcab::client
