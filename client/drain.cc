// `lcab-client drain WORKER`: takes a worker out of use, and back.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/coordinator_link.h"
#include "client/resource_names.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "suites/enum_names.h"

namespace lcab::client {
namespace {

class DrainVerb : public Verb {
 public:
  std::string_view name() const override { return "drain"; }
  std::string_view summary() const override {
    return "Let a worker finish what it runs and give it nothing new";
  }
  std::string_view example() const override {
    return "lcab-client drain workers/node-2\nlcab-client drain node-2 --undo";
  }
  std::vector<Argument> Arguments() override {
    return {{.name = "worker",
             .target = &worker_,
             .description = "the worker, as workers/node-2 or node-2",
             .form = Form::kPositional,
             .required = true,
             .value = "WORKER",
             .check = [this] { return CheckWorker(worker_); }},
            {.name = "undo", .target = &undo_, .description = "give it work again"},
            ServerArgument(&server_)};
  }

  ExitCode Run(Console& console) override {
    CoordinatorLink link(server_);
    v1::DrainWorkerRequest request;
    request.set_name(WorkerName(worker_));
    request.set_drain(!undo_);
    v1::Worker worker;
    const absl::Status status = link.Call([&](grpc::ClientContext* context) {
      return link.fleet().DrainWorker(context, request, &worker);
    });
    if (!status.ok()) return Fail(console, status);
    console.out << fmt::format("{} is {}; {} assignments run there\n", worker.name(),
                               suites::Name(worker.state()), worker.assignments_size());
    return ExitCode::kOk;
  }

 private:
  std::string worker_, server_;
  bool undo_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeDrainVerb() { return std::make_unique<DrainVerb>(); }

}  // namespace lcab::client
