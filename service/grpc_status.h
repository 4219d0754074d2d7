// absl::Status on our side of a call, grpc::Status on the wire, with google.rpc.ErrorInfo as
// detail.
//
//   return ToGrpc(ErrorWithInfo(absl::StatusCode::kNotFound, "there is no job 7", "JOB_NOT_FOUND",
//                               {{"job", "jobs/7"}}));

#ifndef LCAB_SERVICE_GRPC_STATUS_H_
#define LCAB_SERVICE_GRPC_STATUS_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace lcab::service {

// The domain of every ErrorInfo of ours.
inline constexpr std::string_view kErrorDomain = "lcab";

// A longer message is cut on the wire, and says so: messages travel in headers, which are bounded
// (see grpc_options.h).
inline constexpr size_t kMaxErrorMessageBytes = 8 << 10;

// A status that carries ErrorInfo. `reason` is a constant that programs compare ("JOB_ENDED").
absl::Status ErrorWithInfo(absl::StatusCode code, std::string_view message, std::string_view reason,
                           const std::map<std::string, std::string>& metadata = {});

// The reason of the status's ErrorInfo; empty where it has none.
std::string ErrorReason(const absl::Status& status);

// Both keep code, message and ErrorInfo; a message that is not UTF-8 has its bad bytes replaced.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace lcab::service

#endif  // LCAB_SERVICE_GRPC_STATUS_H_
