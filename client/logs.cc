// `lcab-client logs TRIAL`: what the runners of a trial printed.

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/coordinator_link.h"
#include "client/job_verbs.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "grpcpp/support/sync_stream.h"
#include "proto/visible_text.h"

namespace lcab::client {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(5);
constexpr int64_t kMostNumber = 1'000'000;  // of attempts and ranks

class LogsVerb : public Verb {
 public:
  std::string_view name() const override { return "logs"; }
  std::string_view summary() const override { return "Print what the runners of a trial printed"; }
  std::string_view details() const override {
    return "Of long output the beginning and the end are kept, and a line says how much is "
           "missing. With several ranks, a line names the rank before its text.";
  }
  std::string_view example() const override {
    return "lcab-client logs jobs/12/trials/3\nlcab-client logs 12/3 --attempt 1 --rank 0";
  }
  std::vector<Argument> Arguments() override {
    return {TrialArgument(&trial_),
            {.name = "attempt",
             .target = &attempt_,
             .description = "which attempt; 0 is the last",
             .value = "N",
             .minimum = 0,
             .maximum = kMostNumber},
            {.name = "rank",
             .target = &rank_,
             .description = "only this rank's output",
             .value = "N",
             .minimum = 0,
             .maximum = kMostNumber},
            ServerArgument(&server_)};
  }

  ExitCode Run(Console& console) override {
    CoordinatorLink link(server_);
    v1::GetTrialLogsRequest request;
    request.set_name(TrialName(trial_));
    request.set_attempt(static_cast<int32_t>(attempt_));
    bool any = false;
    const absl::Status status = link.Call(
        [&](grpc::ClientContext* context) {
          const auto reader = link.jobs().GetTrialLogs(context, request);
          std::optional<int32_t> rank;
          v1::LogChunk chunk;
          while (reader->Read(&chunk)) {
            if (rank_.has_value() && *rank_ != chunk.rank()) continue;
            if (rank != chunk.rank() && (rank.has_value() || chunk.rank() > 0)) {
              console.out << fmt::format("==> rank {} <==\n", chunk.rank());
            }
            rank = chunk.rank();
            console.out << VisibleLines(chunk.text());
            any = true;
          }
          return reader->Finish();
        },
        kTimeout);
    if (!status.ok()) return Fail(console, status);
    if (!any) console.err << "The trial's runners printed nothing.\n";
    return ExitCode::kOk;
  }

 private:
  std::string trial_, server_;
  int64_t attempt_ = 0;
  std::optional<int64_t> rank_;
};

}  // namespace

std::unique_ptr<Verb> MakeLogsVerb() { return std::make_unique<LogsVerb>(); }

}  // namespace lcab::client
