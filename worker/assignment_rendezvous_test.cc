#include "worker/assignment_rendezvous.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/proto_time.h"

namespace lcab::worker {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

v1::RendezvousPut Put(std::string key, std::string value) {
  v1::RendezvousPut put;
  put.set_key(std::move(key));
  put.set_value(std::move(value));
  return put;
}

v1::RendezvousGet Get(int64_t request, std::string key, absl::Duration timeout) {
  v1::RendezvousGet get;
  get.set_request(request);
  get.set_key(std::move(key));
  *get.mutable_timeout() = ToProto(timeout);
  return get;
}

class AssignmentRendezvousTest : public testing::Test {
 protected:
  using Answers = std::vector<std::pair<int, std::string>>;

  AssignmentRendezvous Local() { return {"assignments/1", Recorder(), {}}; }
  AssignmentRendezvous Spanning() {
    return {"assignments/1", Recorder(),
            [this](v1::FromWorker message) { relayed_.push_back(std::move(message)); }};
  }
  AssignmentRendezvous::Answer Recorder() {
    return [this](int rank, const v1::RendezvousValue& value) {
      answers_.emplace_back(
          rank, value.code() == 0
                    ? value.value()
                    : absl::StatusCodeToString(static_cast<absl::StatusCode>(value.code())));
    };
  }

  Answers answers_;
  std::vector<v1::FromWorker> relayed_;
};

TEST_F(AssignmentRendezvousTest, RanksOfOneWorkerMeetWithoutTheCoordinator) {
  AssignmentRendezvous rendezvous = Local();
  rendezvous.Get(0, Get(1, "ready/1", absl::Seconds(5)), kStart);
  EXPECT_TRUE(answers_.empty());
  EXPECT_TRUE(rendezvous.Put(Put("ready/1", "yes")).ok());
  rendezvous.Get(2, Get(1, "ready/1", absl::Seconds(5)), kStart);
  EXPECT_EQ(answers_, (Answers{{0, "yes"}, {2, "yes"}}));
}

TEST_F(AssignmentRendezvousTest, AWaitEndsAtItsDeadline) {
  AssignmentRendezvous rendezvous = Local();
  rendezvous.Get(0, Get(1, "never", absl::Seconds(5)), kStart);
  EXPECT_EQ(rendezvous.Expire(kStart), kStart + absl::Seconds(5));
  EXPECT_EQ(rendezvous.Expire(kStart + absl::Seconds(5)), absl::InfiniteFuture());
  EXPECT_EQ(answers_, (Answers{{0, "DEADLINE_EXCEEDED"}}));
}

TEST_F(AssignmentRendezvousTest, AnAbortWakesThoseWhoWaitNowAndLater) {
  AssignmentRendezvous rendezvous = Local();
  rendezvous.Get(0, Get(1, "a", absl::Seconds(5)), kStart);
  rendezvous.Abort("rank 3 died");
  rendezvous.Get(1, Get(1, "a", absl::Seconds(5)), kStart);
  EXPECT_EQ(answers_, (Answers{{0, "ABORTED"}, {1, "ABORTED"}}));
}

TEST_F(AssignmentRendezvousTest, RanksOfSeveralWorkersMeetAtTheCoordinator) {
  AssignmentRendezvous rendezvous = Spanning();
  EXPECT_TRUE(rendezvous.Put(Put("address/0", "here")).ok());
  rendezvous.Get(0, Get(7, "address/1", absl::Seconds(5)), kStart);
  ASSERT_EQ(relayed_.size(), 2u);
  EXPECT_EQ(relayed_[0].put().put().value(), "here");
  EXPECT_EQ(relayed_[1].get().get().key(), "address/1");
  v1::RendezvousValue value;
  value.set_request(7);
  value.set_value("there");
  EXPECT_TRUE(rendezvous.Deliver(0, value).ok());
  EXPECT_TRUE(rendezvous.Deliver(0, value).ok());  // sent twice over two connections
  EXPECT_EQ(answers_, (Answers{{0, "there"}}));
}

TEST_F(AssignmentRendezvousTest, ANewConnectionCarriesPutsAndOpenGetsAgain) {
  AssignmentRendezvous rendezvous = Spanning();
  EXPECT_TRUE(rendezvous.Put(Put("address/0", "here")).ok());
  rendezvous.Get(0, Get(7, "address/1", absl::Seconds(5)), kStart);
  rendezvous.Get(0, Get(8, "address/0", absl::Seconds(5)), kStart);  // known here
  relayed_.clear();
  rendezvous.Resend(kStart + absl::Seconds(2));
  ASSERT_EQ(relayed_.size(), 2u);
  EXPECT_EQ(relayed_[0].put().put().key(), "address/0");
  EXPECT_EQ(relayed_[1].get().get().request(), 7);
  EXPECT_EQ(FromProto(relayed_[1].get().get().timeout()), absl::Seconds(3));
}

TEST_F(AssignmentRendezvousTest, AnErrorOfTheCoordinatorEndsAllWaits) {
  AssignmentRendezvous rendezvous = Spanning();
  rendezvous.Get(0, Get(7, "a", absl::Seconds(5)), kStart);
  rendezvous.Get(1, Get(3, "b", absl::Seconds(5)), kStart);
  v1::RendezvousValue value;
  value.set_request(7);
  value.set_code(static_cast<int>(absl::StatusCode::kAborted));
  value.set_error("the attempt was aborted");
  EXPECT_TRUE(rendezvous.Deliver(0, value).ok());
  EXPECT_EQ(answers_.size(), 2u);
}

TEST_F(AssignmentRendezvousTest, WhatDoesNotFitIsRefusedAndSecondValuesAreNot) {
  const auto relay = [this](v1::FromWorker message) { relayed_.push_back(std::move(message)); };
  AssignmentRendezvous rendezvous("assignments/1", Recorder(), relay, /*max_bytes=*/10);
  EXPECT_TRUE(rendezvous.Put(Put("a", "four")).ok());
  EXPECT_TRUE(rendezvous.Put(Put("a", "other")).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(rendezvous.Put(Put("b", "12345"))));
  EXPECT_EQ(relayed_.size(), 1u);
  rendezvous.Get(0, Get(7, "c", absl::Seconds(5)), kStart);
  v1::RendezvousValue value;
  value.set_request(7);
  value.set_value("12345");
  EXPECT_TRUE(absl::IsResourceExhausted(rendezvous.Deliver(0, value)));
  rendezvous.Abort("it is over");
  EXPECT_TRUE(rendezvous.Put(Put("d", "")).ok());
}

}  // namespace
}  // namespace lcab::worker
