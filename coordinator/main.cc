// lcab-coordinator: the coordinator as a daemon.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/time/time.h"
#include "coordinator/coordinator.h"
#include "fmt/format.h"
#include "lcab_version.h"
#include "service/addresses.h"
#include "service/grpc_options.h"
#include "service/logging.h"
#include "service/stop_signals.h"
#include "spdlog/spdlog.h"

namespace lcab::coordinator {
namespace {

constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Flags {
  CoordinatorOptions options{.metrics_listen = service::kCoordinatorMetricsAddress};
  double heartbeat_timeout_seconds = 30;
  double grace_seconds = 5;
  std::string log_level = "info";
};

void Declare(CLI::App& app, Flags& flags) {
  app.description("Queues suites, places their trials on workers, and keeps what came of them.");
  app.set_version_flag("--version", fmt::format("lcab-coordinator {} ({})", GetBuildInfo().version,
                                                GetBuildInfo().commit));
  app.set_config("--config", "", "Read these options from a TOML or INI file; flags win");
  app.add_option(
         "--listen", flags.options.listen,
         "Where clients and workers connect: host:port (port 0: any free one) or unix:/path. "
         "There is no authentication: use an address that only you can reach")
      ->capture_default_str();
  app.add_option("--db", flags.options.db, "The SQLite file of jobs and results, on a local disk")
      ->capture_default_str();
  app.add_option(
         "--metrics-listen", flags.options.metrics_listen,
         "Where /metrics and /healthz are served over plain HTTP: host:port; empty: nowhere")
      ->capture_default_str();
  app.add_option("--heartbeat-timeout", flags.heartbeat_timeout_seconds,
                 "Seconds of silence after which a worker is lost")
      ->capture_default_str();
  app.add_option("--max-attempts", flags.options.max_attempts,
                 "How often a trial is tried when infrastructure fails it")
      ->capture_default_str();
  app.add_option("--grace", flags.grace_seconds,
                 "Seconds from a cancel or a fault until workers kill what is left")
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_flag("--reflection", flags.options.reflection,
               "Offer gRPC server reflection, for tools like grpcurl");
  app.footer("Example:\n  lcab-coordinator --db lcab.db --listen 127.0.0.1:7750");
}

std::string_view Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

int Serve(Flags flags) {
  // First: threads that are started later inherit the blocked signals.
  service::StopSignals signals;
  flags.options.heartbeat_timeout = absl::Seconds(flags.heartbeat_timeout_seconds);
  flags.options.grace = absl::Seconds(flags.grace_seconds);
  if (const absl::Status status = service::SetUpLogging(flags.log_level); !status.ok()) {
    fmt::print(stderr, "lcab-coordinator: {}\n", Text(status));
    return kUsage;
  }
  service::RouteGrpcLog();
  const std::string metrics = flags.options.metrics_listen;
  auto coordinator = Coordinator::Start(std::move(flags.options));
  if (!coordinator.ok()) {
    fmt::print(stderr, "lcab-coordinator: {}\n", Text(coordinator.status()));
    return coordinator.status().code() == absl::StatusCode::kInvalidArgument ? kUsage : kFailed;
  }
  // On stdout, a line for scripts: with port 0 it is how they learn the port.
  fmt::print("listening on {}\n", (*coordinator)->address());
  if (!metrics.empty()) fmt::print("metrics on port {}\n", (*coordinator)->metrics_port());
  std::fflush(stdout);
  spdlog::info("coordinator started address={} version={} commit={}", (*coordinator)->address(),
               GetBuildInfo().version, GetBuildInfo().commit);
  const std::string& address = (*coordinator)->address();
  const bool here = address.rfind("unix:", 0) == 0 || address.rfind("127.", 0) == 0 ||
                    address.rfind("localhost:", 0) == 0 || address.rfind("[::1]:", 0) == 0;
  if (!here) {
    spdlog::warn(
        "anyone who reaches address={} may submit and cancel jobs: there is no "
        "authentication",
        address);
  }
  int signal = 0;
  while (signal == 0) signal = signals.Wait(absl::Seconds(1));
  spdlog::info("coordinator stopping signal={}", signal);
  coordinator->reset();
  spdlog::info("coordinator stopped");
  return kOk;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app;
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return Serve(std::move(flags));
}

}  // namespace
}  // namespace lcab::coordinator

int main(int argc, char** argv) {
  try {
    return lcab::coordinator::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lcab-coordinator: {}\n", error.what());
    return lcab::coordinator::kFailed;
  }
}
