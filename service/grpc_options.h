// What both ends of our gRPC connections must agree on: sizes and keepalive. A server that does not
// expect a client's pings closes the connection, so they are set together, here.

#ifndef LCAB_SERVICE_GRPC_OPTIONS_H_
#define LCAB_SERVICE_GRPC_OPTIONS_H_

#include "absl/time/time.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"

namespace lcab::service {

// What either end accepts. Nothing that we send is larger than kMaxSentBytes: what could be,
// travels in pieces. A suite with its files is one message all the same, with limits of its own.
inline constexpr int kMaxReceivedBytes = 64 << 20;
inline constexpr int kMaxSentBytes = 3 << 20;

// How soon a connection whose peer is gone without a word is noticed: time plus timeout.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(20);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);

// Sets keepalive and sizes.
void ApplyGrpcOptions(grpc::ServerBuilder& builder);
grpc::ChannelArguments MakeChannelArguments();

// What gRPC itself has to say goes to our log, as debugging: whoever called it learns of failures
// by status and tells them in our own words.
void RouteGrpcLog();

}  // namespace lcab::service

#endif  // LCAB_SERVICE_GRPC_OPTIONS_H_
