#include "worker/session.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "worker/testing/fake_coordinator.h"

namespace lcab::worker {
namespace {

using Received = std::vector<v1::FromWorker>;

class RecordingHandler : public SessionHandler {
 public:
  v1::Hello MakeHello() override {
    v1::Hello hello;
    hello.set_worker_id("w1");
    return hello;
  }
  v1::Heartbeat MakeHeartbeat() override { return {}; }
  void OnWelcome(const v1::Welcome&) override { ++welcomes; }
  void OnDisconnect() override { ++disconnects; }
  void OnMessage(const v1::ToWorker&) override { ++messages; }
  std::atomic<int> welcomes = 0;
  std::atomic<int> disconnects = 0;
  std::atomic<int> messages = 0;
};

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string file = fmt::format("{}/session_test_outbox_{}", testing::TempDir(), getpid());
    std::filesystem::remove(file);
    outbox_ = *Outbox::Open(file, "a");
    address_ = fmt::format("unix:{}/session_test_{}.sock", testing::TempDir(), getpid());
  }
  void StartSession() {
    session_ = std::make_unique<Session>(SessionOptions{.coordinator = address_,
                                                        .first_backoff = absl::Milliseconds(10),
                                                        .longest_backoff = absl::Milliseconds(50)},
                                         *outbox_, handler_);
    session_->Start();
  }
  void AddEnd(const std::string& assignment) {
    v1::AssignmentEvent event;
    event.set_assignment(assignment);
    event.mutable_ended();
    ASSERT_TRUE(outbox_->Add(event).ok());
    if (session_ != nullptr) session_->Wake();
  }
  static int Events(const Received& received) {
    int count = 0;
    for (const v1::FromWorker& message : received) count += message.has_event() ? 1 : 0;
    return count;
  }
  static int Heartbeats(const Received& received) {
    int count = 0;
    for (const v1::FromWorker& message : received) count += message.has_heartbeat() ? 1 : 0;
    return count;
  }

  RecordingHandler handler_;
  std::string address_;
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, SaysHelloThenWhatIsUnacknowledgedThenAHeartbeat) {
  AddEnd("assignments/1");
  AddEnd("assignments/2");
  FakeCoordinator coordinator(address_);
  StartSession();
  ASSERT_TRUE(coordinator.WaitFor([](const Received& all) { return Heartbeats(all) >= 2; }));
  const Received all = coordinator.received();
  EXPECT_TRUE(all[0].has_hello());
  EXPECT_EQ(all[1].event().assignment(), "assignments/1");
  EXPECT_EQ(all[2].event().assignment(), "assignments/2");
  EXPECT_TRUE(all[3].has_heartbeat());
  EXPECT_TRUE(session_->Flush(absl::Now() + absl::Seconds(20)));
}

TEST_F(SessionTest, ConnectsWhenTheCoordinatorComesLater) {
  StartSession();
  AddEnd("assignments/1");
  EXPECT_FALSE(session_->Flush(absl::Now() + absl::Milliseconds(50)));
  FakeCoordinator coordinator(address_);
  EXPECT_TRUE(session_->Flush(absl::Now() + absl::Seconds(20)));
}

TEST_F(SessionTest, AfterARestartOfTheCoordinatorWhatItDidNotAcknowledgeIsSentAgain) {
  FakeCoordinator coordinator(address_);
  coordinator.SetAcknowledging(false);
  StartSession();
  AddEnd("assignments/1");
  ASSERT_TRUE(coordinator.WaitFor([](const Received& all) { return Events(all) == 1; }));
  coordinator.Stop();
  coordinator.Forget();
  coordinator.SetAcknowledging(true);
  AddEnd("assignments/2");
  coordinator.Listen();
  ASSERT_TRUE(coordinator.WaitFor([](const Received& all) { return Heartbeats(all) >= 1; }));
  EXPECT_EQ(Events(coordinator.received()), 2);
  EXPECT_TRUE(session_->Flush(absl::Now() + absl::Seconds(20)));
  EXPECT_EQ(handler_.welcomes, 2);
  EXPECT_EQ(handler_.disconnects, 1);
}

TEST_F(SessionTest, PutsAndGetsOfABrokenConnectionAreNotKept) {
  StartSession();
  v1::FromWorker put;
  put.mutable_put()->set_assignment("assignments/1");
  session_->Relay(put);
  FakeCoordinator coordinator(address_);
  ASSERT_TRUE(coordinator.WaitFor([](const Received& all) { return Heartbeats(all) >= 1; }));
  for (const v1::FromWorker& message : coordinator.received()) EXPECT_FALSE(message.has_put());
  session_->Relay(put);
  EXPECT_TRUE(coordinator.WaitFor([](const Received& all) { return all.back().has_put(); }));
}

TEST_F(SessionTest, EndsAtOnceWithAndWithoutACoordinator) {
  for (const bool listening : {false, true}) {
    std::unique_ptr<FakeCoordinator> coordinator;
    if (listening) coordinator = std::make_unique<FakeCoordinator>(address_);
    StartSession();
    if (listening) {
      ASSERT_TRUE(coordinator->WaitFor([](const Received& all) { return Heartbeats(all) >= 1; }));
    }
    const absl::Time start = absl::Now();
    session_.reset();
    EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  }
}

}  // namespace
}  // namespace lcab::worker
