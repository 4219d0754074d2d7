// `lcab-client results`: what was measured, across jobs.

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/coordinator_link.h"
#include "client/local_coordinator.h"
#include "client/output.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "grpcpp/support/sync_stream.h"
#include "report/results_table.h"
#include "report/rows.h"
#include "suites/enum_names.h"

namespace lcab::client {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(10);

class ResultsVerb : public Verb {
 public:
  std::string_view name() const override { return "results"; }
  std::string_view summary() const override { return "Show results, of one job or of all"; }
  std::string_view details() const override {
    return "Newest job first, in the order of its suite. docs/results.md says what each field of "
           "JSON and CSV means.";
  }
  std::string_view example() const override {
    return "lcab-client results --job jobs/12 --output json\n"
           "lcab-client results --kernel cpu_tiled --mask causal --pass forward\n"
           "lcab-client results --db lcab.db";
  }
  std::vector<Argument> Arguments() override {
    return {
        {.name = "job",
         .target = &job_,
         .description = "only of this job",
         .value = "JOB",
         .check = [this] { return job_.empty() ? absl::OkStatus() : CheckJob(job_); }},
        {.name = "kernel",
         .target = &kernel_,
         .description = "only of this kernel",
         .value = "NAME"},
        {.name = "mask", .target = &mask_, .description = "only under this mask", .value = "NAME"},
        {.name = "strategy",
         .target = &strategy_,
         .description = "only of this strategy",
         .value = "NAME"},
        {.name = "pass",
         .target = &pass_,
         .description = "only of this pass",
         .choices = suites::Names<v1::Pass>()},
        {.name = "outcome",
         .target = &outcome_,
         .description = "only with this outcome",
         .choices = suites::Names<v1::Outcome>()},
        {.name = "ranks",
         .target = &ranks_,
         .description = "only on this many ranks",
         .value = "N",
         .minimum = 1,
         .maximum = std::numeric_limits<int32_t>::max()},
        {.name = "seq-len",
         .target = &seq_len_,
         .description = "only of this many query tokens, as 4096 or 4K",
         .value = "N",
         .minimum = 1},
        {.name = "limit",
         .target = &limit_,
         .description = "at most this many rows",
         .value = "N",
         .minimum = 1},
        {.name = "db",
         .target = &db_,
         .description = "read this file in place of asking a coordinator",
         .value = "FILE"},
        OutputArgument(&output_),
        ServerArgument(&server_)};
  }

  ExitCode Run(Console& console) override {
    std::unique_ptr<LocalCoordinator> local;
    std::string address = server_;
    if (!db_.empty()) {
      auto opened = LocalCoordinator::OpenReadOnly(db_);
      if (!opened.ok()) return Fail(console, opened.status());
      local = *std::move(opened);
      address = local->address();
    }
    CoordinatorLink link(address);
    std::vector<v1::Trial> trials;
    const absl::Status status = Query(link, &trials);
    if (!status.ok()) return Fail(console, status);
    if (output_ != kTable) {
      PrintRows(console, output_, report::ResultRows(trials));
    } else if (trials.empty()) {
      console.out << "There are no results that match.\n";
    } else {
      console.out << report::ResultsTable(trials, console.out_terminal);
    }
    return ExitCode::kOk;
  }

 private:
  v1::ResultFilter Filter() const {
    v1::ResultFilter filter;
    if (!job_.empty()) filter.set_job(JobName(job_));
    filter.set_kernel(kernel_);
    filter.set_mask(mask_);
    filter.set_strategy(strategy_);
    filter.set_pass(suites::ParseName<v1::Pass>(pass_).value_or(v1::PASS_UNSPECIFIED));
    filter.set_outcome(suites::ParseName<v1::Outcome>(outcome_).value_or(v1::OUTCOME_UNSPECIFIED));
    filter.set_ranks(static_cast<int32_t>(ranks_.value_or(0)));
    filter.set_seq_len(seq_len_.value_or(0));
    return filter;
  }

  absl::Status Query(CoordinatorLink& link, std::vector<v1::Trial>* trials) const {
    v1::ExportResultsRequest request;
    *request.mutable_filter() = Filter();
    bool enough = false;
    const absl::Status status = link.Call(
        [&](grpc::ClientContext* context) {
          const auto reader = link.results().ExportResults(context, request);
          v1::ExportedResult result;
          while (!enough && reader->Read(&result)) {
            if (result.has_trial()) trials->push_back(std::move(*result.mutable_trial()));
            enough = limit_.has_value() && static_cast<int64_t>(trials->size()) >= *limit_;
          }
          if (enough) context->TryCancel();
          return reader->Finish();
        },
        kTimeout);
    return enough ? absl::OkStatus() : status;
  }

  std::string job_, kernel_, mask_, strategy_, pass_, outcome_, db_, output_, server_;
  std::optional<int64_t> ranks_, seq_len_, limit_;
};

}  // namespace

std::unique_ptr<Verb> MakeResultsVerb() { return std::make_unique<ResultsVerb>(); }

}  // namespace lcab::client
