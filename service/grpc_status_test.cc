#include "service/grpc_status.h"

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace lcab::service {
namespace {

TEST(GrpcStatus, EveryCodeAndItsMessageSurviveTheRoundTrip) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what failed");
    const grpc::Status wire = ToGrpc(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(FromGrpc(wire), status);
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(GrpcStatus, ErrorInfoTravelsAsTheDetailThatAnyClientCanRead) {
  const grpc::Status wire = ToGrpc(ErrorWithInfo(
      absl::StatusCode::kFailedPrecondition, "job 7 has ended", "JOB_ENDED", {{"job", "jobs/7"}}));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  EXPECT_EQ(details.code(), 9);
  EXPECT_EQ(details.message(), "job 7 has ended");
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "JOB_ENDED");
  EXPECT_EQ(info.domain(), "lcab");
  EXPECT_EQ(info.metadata().at("job"), "jobs/7");
  EXPECT_EQ(ErrorReason(FromGrpc(wire)), "JOB_ENDED");
  EXPECT_EQ(ErrorReason(absl::InternalError("bare")), "");
}

TEST(GrpcStatus, MessageThatDoesNotFitIntoHeadersIsCutBetweenCharactersAndSaysSo) {
  std::string message;
  for (int i = 0; i < 10000; ++i) message += "\xC3\xA9";  // é
  const std::string wire = ToGrpc(absl::InvalidArgumentError(message)).error_message();
  const std::string kept = message.substr(0, kMaxErrorMessageBytes);
  EXPECT_EQ(wire, kept + " [11808 more bytes left out]");
}

TEST(GrpcStatus, BytesThatAreNotTextAreReplacedBecauseClientsWouldRefuseThem) {
  const std::string message =
      "a\xFF"
      "b\xC3(\xED\xA0\x80\xE2\x82\xAC";  // a surrogate, then €
  EXPECT_EQ(ToGrpc(absl::InternalError(message)).error_message(), "a?b?(???\xE2\x82\xAC");
}

TEST(GrpcStatus, DetailsThatAreNotOursAreIgnored) {
  const grpc::Status wire(grpc::StatusCode::ABORTED, "stopped", "\x01\x02 no message");
  EXPECT_EQ(FromGrpc(wire), absl::AbortedError("stopped"));
}

}  // namespace
}  // namespace lcab::service
