// `lcab-client workers`: the fleet.

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "client/coordinator_link.h"
#include "client/listing.h"
#include "client/output.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "proto/proto_time.h"
#include "report/quantities.h"
#include "suites/enum_names.h"

namespace lcab::client {
namespace {

// "2 x AMD EPYC 9B14 (4 threads), 8 x NVIDIA H200 (132 multiprocessors)"
std::string DevicesText(const v1::Worker& worker) {
  std::string text;
  for (int n = 0; n < worker.devices_size();) {
    const v1::Device& device = worker.devices(n);
    int count = 0;
    while (n < worker.devices_size() && worker.devices(n).model() == device.model() &&
           worker.devices(n).threads() == device.threads()) {
      ++n;
      ++count;
    }
    text += fmt::format("{}{} x {} ({} {})", text.empty() ? "" : ", ", count, device.model(),
                        device.threads(), device.kind() == "cuda" ? "multiprocessors" : "threads");
  }
  return text;
}

class WorkersVerb : public Verb {
 public:
  std::string_view name() const override { return "workers"; }
  std::string_view summary() const override {
    return "List the workers of a coordinator and what they have";
  }
  std::string_view example() const override { return "lcab-client workers"; }
  std::vector<Argument> Arguments() override {
    return {OutputArgument(&output_), ServerArgument(&server_)};
  }

  ExitCode Run(Console& console) override {
    CoordinatorLink link(server_);
    Listing listing({{.name = "worker"},
                     {.name = "state"},
                     {.name = "devices", .may_shrink = true},
                     {.name = "device_count", .in_table = false},
                     {.name = "running", .align = report::Align::kRight},
                     {.name = "kernels", .in_table = false},
                     {.name = "heard_of"},
                     {.name = "notes", .may_shrink = true}});
    v1::ListWorkersRequest request;
    do {
      v1::ListWorkersResponse response;
      const absl::Status status = link.Call([&](grpc::ClientContext* context) {
        return link.fleet().ListWorkers(context, request, &response);
      });
      if (!status.ok()) return Fail(console, status);
      for (const v1::Worker& worker : response.workers()) Add(worker, listing);
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    listing.Print(
        console, output_,
        fmt::format("No worker has connected. Start one with: lcab-worker --coordinator {}",
                    link.address()));
    return ExitCode::kOk;
  }

 private:
  static void Add(const v1::Worker& worker, Listing& listing) {
    std::vector<std::string> kernels;
    for (const v1::KernelInfo& kernel : worker.kernels()) {
      if (!kernel.hidden()) kernels.push_back(kernel.name());
    }
    Listing::Value heard;
    if (worker.has_last_heartbeat_time()) {
      const absl::Time at = FromProto(worker.last_heartbeat_time());
      heard = {absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", at, absl::UTCTimeZone()),
               fmt::format("{} ago", report::WaitText(absl::Now() - at))};
    }
    listing.Add({{worker.name()},
                 {suites::Name(worker.state())},
                 {DevicesText(worker)},
                 {int64_t{worker.devices_size()}},
                 {int64_t{worker.assignments_size()}},
                 {fmt::format("{}", fmt::join(kernels, " "))},
                 std::move(heard),
                 {fmt::format("{}", fmt::join(worker.notes(), "; "))}});
  }

  std::string output_, server_;
};

}  // namespace

std::unique_ptr<Verb> MakeWorkersVerb() { return std::make_unique<WorkersVerb>(); }

}  // namespace lcab::client
