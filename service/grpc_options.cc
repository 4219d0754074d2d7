#include "service/grpc_options.h"

#include <utility>

#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "spdlog/spdlog.h"

namespace lcab::service {
namespace {

// Error messages travel in headers (see kMaxErrorMessageBytes): percent-encoded, and in base64.
constexpr int kMaxHeaderBytes = 64 << 10;

constexpr std::pair<const char*, int> kBothEnds[] = {
    {GRPC_ARG_KEEPALIVE_TIME_MS, 20'000},          {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000},
    {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},  {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
    {GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes},
};
static_assert(kKeepaliveTime == absl::Milliseconds(20'000));
static_assert(kKeepaliveTimeout == absl::Milliseconds(10'000));

}  // namespace

void ApplyGrpcOptions(grpc::ServerBuilder& builder) {
  for (const auto& [name, value] : kBothEnds) builder.AddChannelArgument(name, value);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  // Two daemons on one port would get half of the calls each.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxReceivedBytes);
}

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* said) {
    spdlog::debug("grpc file={} line={} message=\"{}\"", said->file, said->line, said->message);
  });
}

grpc::ChannelArguments MakeChannelArguments() {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : kBothEnds) arguments.SetInt(name, value);
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  return arguments;
}

}  // namespace lcab::service
