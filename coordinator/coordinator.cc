#include "coordinator/coordinator.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "coordinator/core.h"
#include "coordinator/expand_suite.h"
#include "coordinator/fleet_service.h"
#include "coordinator/jobs_service.h"
#include "coordinator/results_service.h"
#include "coordinator/worker_stream_service.h"
#include "fmt/format.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "service/free_port.h"
#include "service/grpc_options.h"
#include "service/http_listener.h"
#include "spdlog/spdlog.h"

namespace lcab::coordinator {
namespace {

constexpr std::string_view kUnix = "unix:";
// Streams of workers and watchers keep a thread each.
constexpr int kMaxThreads = 2048;
// Calls that are in progress may finish within this.
constexpr absl::Duration kShutdownTime = absl::Seconds(5);

constexpr int kMostAttempts = 100;
constexpr absl::Duration kShortestHeartbeatTimeout = absl::Milliseconds(100);
constexpr absl::Duration kLongestHeartbeatTimeout = absl::Hours(24);
constexpr absl::Duration kLongestGrace = absl::Hours(1);

absl::Status Check(const CoordinatorOptions& options) {
  if (options.max_attempts < 1 || options.max_attempts > kMostAttempts) {
    return absl::InvalidArgumentError(fmt::format("--max-attempts is 1 to {}, not {}; 3 is usual",
                                                  kMostAttempts, options.max_attempts));
  }
  // What is no number has become an infinite duration.
  if (options.heartbeat_timeout < kShortestHeartbeatTimeout ||
      options.heartbeat_timeout > kLongestHeartbeatTimeout) {
    return absl::InvalidArgumentError(
        fmt::format("--heartbeat-timeout is 0.1 to {} seconds, not {}; 30 is usual",
                    absl::ToInt64Seconds(kLongestHeartbeatTimeout),
                    absl::ToDoubleSeconds(options.heartbeat_timeout)));
  }
  if (options.grace < absl::ZeroDuration() || options.grace > kLongestGrace) {
    return absl::InvalidArgumentError(fmt::format("--grace is 0 to {} seconds, not {}; 5 is usual",
                                                  absl::ToInt64Seconds(kLongestGrace),
                                                  absl::ToDoubleSeconds(options.grace)));
  }
  if (options.listen.rfind(kUnix, 0) == 0) return absl::OkStatus();
  return service::ParseHostPort(options.listen).status();
}

absl::Status CannotListen(const std::string& address) {
  return absl::UnavailableError(fmt::format(
      "cannot listen on {}: it is taken, or is no address of this machine; choose another "
      "with --listen",
      address));
}

absl::Status CheckIsFree(const std::string& listen) {
  if (listen.rfind(kUnix, 0) == 0) return absl::OkStatus();
  const auto host_port = service::ParseHostPort(listen);
  if (!host_port.ok()) return host_port.status();
  return service::CheckPortIsFree(*host_port).ok() ? absl::OkStatus() : CannotListen(listen);
}

}  // namespace

struct Coordinator::Services {
  explicit Services(Core& core) : jobs(core), results(core), fleet(core), worker_stream(core) {}
  JobsService jobs;
  ResultsService results;
  FleetService fleet;
  WorkerStreamService worker_stream;
};

Coordinator::Coordinator() = default;

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  if (!options.expand) options.expand = ExpandSuite;
  std::unique_ptr<Coordinator> coordinator(new Coordinator);
  // Ports first: what cannot be reached makes no database.
  if (!options.metrics_listen.empty()) {
    auto http = service::HttpListener::Open(options.metrics_listen);
    if (!http.ok()) return http.status();
    coordinator->http_ = *std::move(http);
  }
  if (absl::Status status = CheckIsFree(options.listen); !status.ok()) return status;
  auto core = Core::Open(options.db, {.max_attempts = options.max_attempts,
                                      .grace = options.grace,
                                      .heartbeat_timeout = options.heartbeat_timeout,
                                      .expand = options.expand,
                                      .now = options.now,
                                      .read_only = options.read_only,
                                      .health_changed = [self = coordinator.get()](bool healthy) {
                                        self->SetServing(healthy);
                                      }});
  if (!core.ok()) return core.status();
  coordinator->core_ = *std::move(core);
  if (absl::Status status = coordinator->Listen(options); !status.ok()) return status;
  if (!options.manual_ticks && !options.read_only) coordinator->core_->Start();
  return coordinator;
}

absl::Status Coordinator::Listen(const CoordinatorOptions& options) {
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  services_ = std::make_unique<Services>(*core_);
  grpc::ServerBuilder builder;
  service::ApplyGrpcOptions(builder);
  grpc::ResourceQuota quota("coordinator");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  const bool local = options.listen.rfind(kUnix, 0) == 0;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : {static_cast<grpc::Service*>(&services_->jobs),
                                 static_cast<grpc::Service*>(&services_->results),
                                 static_cast<grpc::Service*>(&services_->fleet),
                                 static_cast<grpc::Service*>(&services_->worker_stream)}) {
    builder.RegisterService(service);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return CannotListen(options.listen);
  }
  SetServing(true);
  address_ = options.listen;
  if (!local) {
    const auto host_port = service::ParseHostPort(options.listen);
    if (!host_port.ok()) return host_port.status();
    const bool v6 = host_port->host.find(':') != std::string::npos;
    address_ =
        fmt::format("{}:{}", v6 ? fmt::format("[{}]", host_port->host) : host_port->host, port);
  }
  if (http_ != nullptr) http_->Serve(core_->shared_metrics(), [this] { return Health(); });
  return absl::OkStatus();
}

void Coordinator::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus("", serving);
  for (const char* name : {v1::Jobs::service_full_name(), v1::Results::service_full_name(),
                           v1::Fleet::service_full_name(), v1::WorkerStream::service_full_name()}) {
    health->SetServingStatus(name, serving);
  }
}

Coordinator::~Coordinator() {
  if (server_ != nullptr && server_->GetHealthCheckService() != nullptr) {
    server_->GetHealthCheckService()->SetServingStatus(false);
  }
  http_.reset();
  if (core_ != nullptr) core_->Stop();
  if (server_ != nullptr) {
    server_->Shutdown(absl::ToChronoTime(absl::Now() + kShutdownTime));
    server_->Wait();
  }
  server_.reset();
  services_.reset();
  core_.reset();
  if (address_.rfind(kUnix, 0) == 0) {
    std::error_code ignored;  // it may be gone already
    std::filesystem::remove(address_.substr(kUnix.size()), ignored);
  }
}

int Coordinator::metrics_port() const { return http_ == nullptr ? 0 : http_->port(); }

absl::Status Coordinator::Health() const { return core_->Health(); }

absl::Status Coordinator::StoreFailure() const { return core_->StoreFailure(); }

void Coordinator::Tick() { core_->Tick(); }

}  // namespace lcab::coordinator
