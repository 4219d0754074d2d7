// lcab-worker: offers this machine's devices to a coordinator and runs what it is assigned.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "lcab_version.h"
#include "service/addresses.h"
#include "service/grpc_options.h"
#include "service/http_listener.h"
#include "service/logging.h"
#include "service/stop_signals.h"
#include "worker/worker.h"

namespace lcab::worker {
namespace {

// As lcab-client's, in docs/cli.md.
constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Flags {
  WorkerOptions worker;
  std::string metrics_listen = service::kWorkerMetricsAddress;
  std::string log_level = "info";
};

int Fail(const absl::Status& status) {
  const absl::string_view message = status.message();
  fmt::print(stderr, "lcab-worker: {}\n", std::string_view(message.data(), message.size()));
  return status.code() == absl::StatusCode::kInvalidArgument ? kUsage : kFailed;
}

// "name=value,name=value"
std::map<std::string, std::string> ParseHooks(std::string_view text) {
  std::map<std::string, std::string> hooks;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    const size_t equals = std::min(entry.find('='), entry.size());
    hooks[std::string(entry.substr(0, equals))] = entry.substr(std::min(equals + 1, entry.size()));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return hooks;
}

// Waits for the end of what runs and for its delivery, or for another signal.
void FinishWork(Worker& worker, service::StopSignals& signals) {
  spdlog::info("stopping: what runs is finished first; a second signal ends it");
  worker.Drain();
  while (!worker.WaitUntilFinished(absl::Now() + absl::Milliseconds(100))) {
    if (signals.Wait(absl::Milliseconds(100)) == 0) continue;
    spdlog::info("stopping now");
    worker.AbortAll("the worker was stopped");
    return;
  }
  const int64_t kept = worker.Deliver([&] { return signals.Wait(absl::ZeroDuration()) != 0; });
  if (kept > 0) {
    spdlog::warn(
        "the coordinator has not acknowledged everything; the next start of this worker sends it "
        "again events={} state={}",
        kept, worker.state_path());
  }
}

int Run(Flags& flags) {
  service::StopSignals signals;
  if (absl::Status status = service::SetUpLogging(flags.log_level); !status.ok()) {
    return Fail(status);
  }
  service::RouteGrpcLog();
  WorkerOptions& options = flags.worker;
  if (options.state_path.empty()) options.state_path = DefaultStatePath(options.name);
  if (options.runner.empty()) options.runner = RunnerBesideThisProgram();
  if (const char* hooks = std::getenv("LCAB_TEST_HOOKS");
      hooks != nullptr && options.allow_test_hooks) {
    options.test_hooks = ParseHooks(hooks);
  }
  // Before the worker, which connects as it starts and may be given work at once.
  std::unique_ptr<service::HttpListener> listener;
  if (!flags.metrics_listen.empty()) {
    auto opened = service::HttpListener::Open(flags.metrics_listen);
    if (!opened.ok()) return Fail(opened.status());
    listener = *std::move(opened);
  }
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options);
  if (!worker.ok()) return Fail(worker.status());
  if (listener != nullptr) {
    listener->Serve((*worker)->metrics(), [raw = worker->get()] { return raw->Health(); });
    spdlog::info("metrics port={}", listener->port());
  }
  while (signals.Wait(absl::Hours(1)) == 0) {
  }
  FinishWork(**worker, signals);
  listener.reset();
  worker->reset();
  spdlog::info("stopped");
  return 0;
}

}  // namespace
}  // namespace lcab::worker

int main(int argc, char** argv) {
  lcab::worker::Flags flags;
  lcab::worker::WorkerOptions& worker = flags.worker;
  worker.coordinator = lcab::service::kCoordinatorAddress;

  CLI::App app(
      "Offers this machine's devices to a coordinator and runs what it is assigned.\n\n"
      "  lcab-worker --coordinator node-1:7750 --name node-2 --cpu-slots 4\n\n"
      "SIGTERM ends it when what runs is done, a second one at once.",
      "lcab-worker");
  app.set_version_flag("--version", std::string(lcab::GetBuildInfo().version));
  app.add_option("--coordinator", worker.coordinator, "The coordinator's host:port, or unix:/path")
      ->capture_default_str();
  app.add_option("--name", worker.name,
                 "This worker's name, unique in the fleet (default: as before, else the host's)");
  app.add_option("--cpu-slots", worker.cpu_slots,
                 "CPU devices to offer; each has an equal share of the CPUs")
      ->capture_default_str();
  app.add_flag("!--no-gpus", worker.gpus, "Offer CPU devices only");
  app.add_option("--state-dir", worker.state_path,
                 "Folder for this worker's name and undelivered results "
                 "(default: ~/.local/state/lcab/workers/NAME)");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "host:port of /metrics and /healthz (port 0: any; empty: none)")
      ->capture_default_str();
  app.add_option("--data-interface", worker.data_interface,
                 "Network interface or address for data between workers");
  app.add_option("--runner", worker.runner, "The lcab-runner program (default: beside this one)");
  app.add_option("--memory-limit", worker.memory_limit_bytes,
                 "Memory of one runner, as in 8GiB (default: no limit)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_flag("--test-hooks", worker.allow_test_hooks,
               "Obey LCAB_TEST_HOOKS (name=value,...); for tests only");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : lcab::worker::kUsage;
  }
  return lcab::worker::Run(flags);
}
