// A coordinator as verbs call it: stubs, deadlines, and errors that say what to do next.
//
//   CoordinatorLink link(address);
//   v1::Job job;
//   absl::Status status = link.Call(
//       [&](grpc::ClientContext* c) { return link.jobs().GetJob(c, request, &job); });

#ifndef LCAB_CLIENT_COORDINATOR_LINK_H_
#define LCAB_CLIENT_COORDINATOR_LINK_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/verb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "lcab/v1/fleet.grpc.pb.h"
#include "lcab/v1/jobs.grpc.pb.h"
#include "lcab/v1/results.grpc.pb.h"

namespace lcab::client {

// --server, else LCAB_SERVER, else `server` of the configuration file, else this machine.
Argument ServerArgument(std::string* server);

// InvalidArgument unless it is host:port or unix:/path.
absl::Status CheckServer(std::string_view server);

class CoordinatorLink {
 public:
  // `address`: "host:port" or "unix:/path". Connects when it is first used.
  explicit CoordinatorLink(std::string address);

  v1::Jobs::Stub& jobs() { return *jobs_; }
  v1::Results::Stub& results() { return *results_; }
  v1::Fleet::Stub& fleet() { return *fleet_; }
  const std::string& address() const { return address_; }

  // False when nobody answers in time. (Calls that fail at once do not drive the connection: one
  // who only repeats them finds a coordinator that came back seconds late.)
  bool WaitForConnection(absl::Duration timeout) const;
  // A unary call with a deadline.
  absl::Status Call(const std::function<grpc::Status(grpc::ClientContext*)>& call,
                    absl::Duration timeout = absl::Seconds(30)) const;
  // The status in words for people: who does not answer, and what to do about it.
  absl::Status Explain(const grpc::Status& status) const;

 private:
  const std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Results::Stub> results_;
  std::unique_ptr<v1::Fleet::Stub> fleet_;
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_COORDINATOR_LINK_H_
