#include "proto/proto_time.h"

#include <algorithm>
#include <cstdint>

namespace lcab {
namespace {

// Bounds of google.protobuf.Timestamp and Duration, in seconds.
constexpr int64_t kFirstSecond = -62'135'596'800;  // 0001-01-01
constexpr int64_t kLastSecond = 253'402'300'799;   // 9999-12-31
constexpr int64_t kMostSeconds = 315'576'000'000;

}  // namespace

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  const absl::Time bounded =
      std::clamp(time, absl::FromUnixSeconds(kFirstSecond), absl::FromUnixSeconds(kLastSecond));
  // Rounded down, so that the nanoseconds of times before 1970 are positive, as the wire wants.
  const int64_t seconds = absl::ToUnixSeconds(bounded);
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(bounded - absl::FromUnixSeconds(seconds))));
  return proto;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  const absl::Duration bounded =
      std::clamp(duration, -absl::Seconds(kMostSeconds), absl::Seconds(kMostSeconds));
  absl::Duration rest;
  proto.set_seconds(absl::IDivDuration(bounded, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace lcab
