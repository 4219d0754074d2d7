#include "service/grpc_status.h"

#include <algorithm>
#include <optional>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lcab::service {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// Length of the UTF-8 sequence that starts at text[i]; 0 when none does.
size_t SequenceLength(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(i);
  const size_t length = lead < 0x80                    ? 1
                        : lead >= 0xC2 && lead <= 0xDF ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = i + 1; k < i + length; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xED && byte(i + 1) > 0x9F) ||
      (lead == 0xF0 && byte(i + 1) < 0x90) || (lead == 0xF4 && byte(i + 1) > 0x8F)) {
    return 0;
  }
  return length;
}

std::string WireMessage(std::string_view message) {
  std::string text;
  size_t i = 0;
  while (i < message.size()) {
    const size_t length = SequenceLength(message, i);
    if (text.size() + std::max<size_t>(length, 1) > kMaxErrorMessageBytes) break;
    if (length == 0) {
      text += '?';
      ++i;
    } else {
      text.append(message, i, length);
      i += length;
    }
  }
  if (i < message.size()) text += fmt::format(" [{} more bytes left out]", message.size() - i);
  return text;
}

std::optional<google::rpc::ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfoUrl);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

}  // namespace

absl::Status ErrorWithInfo(absl::StatusCode code, std::string_view message, std::string_view reason,
                           const std::map<std::string, std::string>& metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  absl::Status status(code, {message.data(), message.size()});
  status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const std::optional<google::rpc::ErrorInfo> info = GetErrorInfo(status);
  return info.has_value() ? info->reason() : std::string();
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The codes of both are those of google.rpc.Code.
  const auto code = static_cast<grpc::StatusCode>(status.raw_code());
  const std::string message = WireMessage({status.message().data(), status.message().size()});
  const std::optional<google::rpc::ErrorInfo> info = GetErrorInfo(status);
  if (!info.has_value()) return {code, message};
  google::rpc::Status details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  details.add_details()->PackFrom(*info);
  return {code, message, details.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (status.error_details().empty() || !details.ParseFromString(status.error_details())) {
    return result;
  }
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) {
      result.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
    }
  }
  return result;
}

}  // namespace lcab::service
