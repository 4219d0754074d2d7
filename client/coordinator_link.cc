#include "client/coordinator_link.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "service/addresses.h"
#include "service/grpc_options.h"
#include "service/grpc_status.h"
#include "service/http_listener.h"

namespace lcab::client {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments = service::MakeChannelArguments();
  // A coordinator that restarts is found again soon. The minimum is also how long one attempt to
  // connect may take, and on a machine that is busy measuring a handshake takes its time.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

absl::Status CheckServer(std::string_view server) {
  constexpr std::string_view kUnix = "unix:";
  if (server.substr(0, kUnix.size()) == kUnix) {
    if (server.size() > kUnix.size()) return absl::OkStatus();
    return absl::InvalidArgumentError("'unix:' names no socket; write unix:/path");
  }
  const absl::StatusOr<service::HostPort> address = service::ParseHostPort(server);
  if (!address.ok()) return address.status();
  if (address->port != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("'{}' has port 0, where nobody listens; write host:port, as in {}", server,
                  service::kCoordinatorAddress));
}

Argument ServerArgument(std::string* server) {
  *server = service::kCoordinatorAddress;
  return {.name = "server",
          .target = server,
          .description = "address of the coordinator",
          .value = "HOST:PORT",
          .environment = "LCAB_SERVER",
          .config = "server",
          .check = [server] { return CheckServer(*server); }};
}

CoordinatorLink::CoordinatorLink(std::string address)
    : address_(std::move(address)),
      channel_(MakeChannel(address_)),
      jobs_(v1::Jobs::NewStub(channel_)),
      results_(v1::Results::NewStub(channel_)),
      fleet_(v1::Fleet::NewStub(channel_)) {}

bool CoordinatorLink::WaitForConnection(absl::Duration timeout) const {
  return channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + timeout));
}

absl::Status CoordinatorLink::Call(const std::function<grpc::Status(grpc::ClientContext*)>& call,
                                   absl::Duration timeout) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return Explain(call(&context));
}

absl::Status CoordinatorLink::Explain(const grpc::Status& status) const {
  const absl::Status plain = service::FromGrpc(status);
  // It answered, and says what is wrong.
  if (!service::ErrorReason(plain).empty()) return plain;
  if (absl::IsUnavailable(plain)) {
    return absl::UnavailableError(
        fmt::format("no coordinator at {} ({}).\nStart one with `lcab-coordinator --listen {}`, "
                    "say where it is with --server or LCAB_SERVER,\nor run the suite without one: "
                    "lcab-client run SUITE",
                    address_, status.error_message(), address_));
  }
  if (absl::IsDeadlineExceeded(plain)) {
    return absl::DeadlineExceededError(
        fmt::format("the coordinator at {} did not answer in time; see its log, and whether its "
                    "machine is overloaded",
                    address_));
  }
  if (absl::IsUnimplemented(plain)) {
    return absl::UnimplementedError(fmt::format(
        "the coordinator at {} is of another version: it does not know this call", address_));
  }
  return plain;
}

}  // namespace lcab::client
