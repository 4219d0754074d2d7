// The coordinator as a server: gRPC services over a store, in the process of lcab-coordinator or
// embedded in lcab-client.
//
//   auto coordinator =
//       Coordinator::Start({.listen = "unix:/tmp/x/socket", .db = "lcab.db"}).value();
//   Connect(coordinator->address());

#ifndef LCAB_COORDINATOR_COORDINATOR_H_
#define LCAB_COORDINATOR_COORDINATOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/submission.h"
#include "service/addresses.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace lcab::service {
class HttpListener;
}  // namespace lcab::service

namespace lcab::coordinator {

class Core;

struct CoordinatorOptions {
  // "host:port" (0: any free port) or "unix:/path".
  std::string listen = service::kCoordinatorAddress;
  std::string db = "lcab.db";
  // "host:port" of /metrics and /healthz; empty: none.
  std::string metrics_listen;
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  // Of one trial; at least 1.
  int max_attempts = 3;
  // From a cancel or a fault until workers kill what is left.
  absl::Duration grace = absl::Seconds(5);
  // gRPC server reflection, for tools like grpcurl.
  bool reflection = false;
  // Reads suites; empty: ExpandSuite, with the kernels of this build.
  SuiteExpander expand;
  // For tests; empty: the real one.
  std::function<absl::Time()> now;
  // Only answers what `db` holds: takes no lock, changes nothing, and needs no folder that can be
  // written.
  bool read_only = false;
  // For tests: rounds of scheduling come from Tick only.
  bool manual_ticks = false;
};

class Coordinator {
 public:
  // InvalidArgument for options that make no sense; statuses of Store::Open; Unavailable when an
  // address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(CoordinatorOptions options);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  // Stops accepting, ends streams, stores what was begun, closes the file. Workers keep what they
  // run.
  ~Coordinator();

  // Where it listens, as a client is told: "127.0.0.1:7750", "unix:/path".
  const std::string& address() const { return address_; }
  // Of /metrics; 0 without.
  int metrics_port() const;

  absl::Status Health() const;
  // The first failure of the file since the start, a full disk for example: not ok means that
  // something may not have been stored.
  absl::Status StoreFailure() const;
  // One round of scheduling, besides those of its own thread.
  void Tick();

 private:
  Coordinator();
  absl::Status Listen(const CoordinatorOptions& options);
  void SetServing(bool serving);  // to the health service

  struct Services;
  std::string address_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<service::HttpListener> http_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_COORDINATOR_H_
