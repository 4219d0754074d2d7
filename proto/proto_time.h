// Times and durations between Abseil and the wire.

#ifndef LCAB_PROTO_PROTO_TIME_H_
#define LCAB_PROTO_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace lcab {

// Nanoseconds are kept, finer parts cut off. What the wire cannot hold (years before 1 or after
// 9999, infinities; durations beyond 10,000 years) becomes the nearest that it can.
google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);

// Any message gives a value, also one whose nanoseconds are out of range.
absl::Time FromProto(const google::protobuf::Timestamp& time);
absl::Duration FromProto(const google::protobuf::Duration& duration);

}  // namespace lcab

#endif  // LCAB_PROTO_PROTO_TIME_H_
