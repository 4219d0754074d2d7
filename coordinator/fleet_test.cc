#include "coordinator/fleet.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

v1::Hello MakeHello(const std::string& id, const std::string& incarnation = "1") {
  v1::Hello hello;
  hello.set_worker_id(id);
  hello.set_incarnation(incarnation);
  hello.add_devices()->set_id("cpu:0");
  return hello;
}

v1::ToWorker Drain() {
  v1::ToWorker message;
  message.set_drain(true);
  return message;
}

struct Stream {
  std::atomic<int> cancels = 0;
  SessionPtr session;
  explicit Stream(Fleet& fleet, absl::Time now = kNow) {
    session = fleet.Enter([this] { ++cancels; }, now);
  }
};

TEST(Fleet, WorkerIsSentNothingBeforeItsWelcomeAndGivenNoWorkBeforeItsHeartbeat) {
  Fleet fleet(absl::Seconds(30));
  Stream stream(fleet);
  EXPECT_FALSE(fleet.Send("w1", Drain()));
  ASSERT_TRUE(fleet.Identify(stream.session, MakeHello("w1"), kNow).ok());
  EXPECT_FALSE(fleet.Send("w1", Drain()));
  v1::ToWorker welcome;
  welcome.mutable_welcome();
  fleet.Welcome(stream.session, welcome);
  EXPECT_TRUE(fleet.Send("w1", Drain()));
  EXPECT_TRUE(stream.session->Next(absl::ZeroDuration())->has_welcome());
  EXPECT_TRUE(stream.session->Next(absl::ZeroDuration())->drain());
  EXPECT_FALSE(stream.session->Next(absl::ZeroDuration()).has_value());
  EXPECT_THAT(fleet.Workers(), SizeIs(0));
  fleet.Connect(stream.session);
  EXPECT_THAT(fleet.Workers(), SizeIs(1));
  fleet.Leave(stream.session);
  EXPECT_THAT(fleet.Workers(), SizeIs(0));
  EXPECT_FALSE(fleet.Send("w1", Drain()));
}

TEST(Fleet, SecondDaemonIsRefusedWhileTheFirstIsHeardOf) {
  Fleet fleet(absl::Seconds(30));
  Stream first(fleet);
  v1::Hello hello = MakeHello("w1", "first-1");
  hello.mutable_environment()->set_hostname("node-1");
  ASSERT_TRUE(fleet.Identify(first.session, hello, kNow).ok());
  Stream second(fleet, kNow + absl::Seconds(30));
  const absl::Status refused =
      fleet.Identify(second.session, MakeHello("w1", "2"), kNow + absl::Seconds(30));
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("'w1' is in use"), HasSubstr("incarnation first-1 on host node-1"),
                    HasSubstr("--name"), HasSubstr("after 30s of silence")));
  EXPECT_TRUE(fleet.Identify(second.session, MakeHello("w1", "2"), kNow + absl::Seconds(31)).ok());
  EXPECT_EQ(first.cancels, 1);
}

TEST(Fleet, ReplacedStreamThatLeavesLateTakesNothingWithIt) {
  Fleet fleet(absl::Seconds(30));
  Stream first(fleet);
  Stream second(fleet);
  ASSERT_TRUE(fleet.Identify(first.session, MakeHello("w1"), kNow).ok());
  fleet.Welcome(first.session, {});
  fleet.Connect(first.session);
  ASSERT_TRUE(fleet.Identify(second.session, MakeHello("w1"), kNow).ok());
  EXPECT_EQ(first.cancels, 1);
  EXPECT_FALSE(fleet.IsCurrent(first.session));
  fleet.Connect(first.session);  // its heartbeat was on the way
  EXPECT_THAT(fleet.Workers(), SizeIs(0));
  fleet.Welcome(second.session, {});
  fleet.Connect(second.session);
  fleet.Leave(first.session);
  EXPECT_THAT(fleet.Workers(), SizeIs(1));
  EXPECT_TRUE(fleet.Send("w1", Drain()));
}

TEST(Fleet, WorkerThatSaysItIsBeingStoppedIsGivenNoWorkUntilItTakesThatBack) {
  Fleet fleet(absl::Seconds(30));
  Stream stream(fleet);
  ASSERT_TRUE(fleet.Identify(stream.session, MakeHello("w1"), kNow).ok());
  fleet.Welcome(stream.session, {});
  fleet.Connect(stream.session);
  EXPECT_FALSE(fleet.Workers()[0].draining);
  fleet.SetStopping(stream.session, true);
  EXPECT_TRUE(fleet.Workers()[0].draining);
  EXPECT_TRUE(fleet.Members()[0].stopping);
  fleet.SetStopping(stream.session, false);
  EXPECT_FALSE(fleet.Workers()[0].draining);
}

TEST(Fleet, SilentStreamsAreCancelledAlsoThoseThatNeverSaidHello) {
  Fleet fleet(absl::Seconds(30));
  Stream stranger(fleet);
  Stream silent(fleet);
  Stream busy(fleet);
  ASSERT_TRUE(fleet.Identify(silent.session, MakeHello("w1"), kNow).ok());
  ASSERT_TRUE(fleet.Identify(busy.session, MakeHello("w2"), kNow).ok());
  fleet.Hear(busy.session, kNow, /*busy=*/true);
  fleet.Sweep(kNow + absl::Seconds(30));
  EXPECT_EQ(stranger.cancels + silent.cancels + busy.cancels, 0);
  fleet.Sweep(kNow + absl::Seconds(31));
  EXPECT_EQ(stranger.cancels, 1);
  EXPECT_EQ(silent.cancels, 1);
  EXPECT_EQ(busy.cancels, 0) << "what it sent is being stored: it is alive";
  const auto heard = fleet.Heard(kNow + absl::Seconds(31));
  EXPECT_EQ(heard.at("w2"), kNow + absl::Seconds(31));
  EXPECT_EQ(heard.at("w1"), kNow);
}

TEST(Fleet, WhenAWorkerWasHeardOfIsRememberedAfterItLeft) {
  Fleet fleet(absl::Seconds(30));
  Stream stream(fleet);
  ASSERT_TRUE(fleet.Identify(stream.session, MakeHello("w1"), kNow).ok());
  fleet.Hear(stream.session, kNow + absl::Seconds(7), /*busy=*/false);
  fleet.Leave(stream.session);
  EXPECT_EQ(fleet.Heard(kNow + absl::Hours(1)).at("w1"), kNow + absl::Seconds(7));
  fleet.HearAll(kNow + absl::Hours(2));
  EXPECT_EQ(fleet.Heard(kNow + absl::Hours(2)).at("w1"), kNow + absl::Hours(2));
}

TEST(Session, ClosedSessionWakesItsWriterAndIsNeverCancelledAfterwards) {
  std::atomic<int> cancels = 0;
  Session session([&] { ++cancels; });
  std::thread writer([&] { EXPECT_FALSE(session.Next(absl::Seconds(60)).has_value()); });
  session.Close();
  writer.join();
  session.Cancel();
  session.Send(Drain());
  EXPECT_FALSE(session.Next(absl::ZeroDuration()).has_value());
  EXPECT_EQ(cancels, 0);
}

TEST(Session, PeerThatDoesNotReadIsCutOffBeforeItFillsTheMemory) {
  std::atomic<int> cancels = 0;
  Session session([&] { ++cancels; });
  v1::ToWorker large;
  large.mutable_value()->mutable_value()->set_value(std::string(1 << 20, 'v'));
  for (int i = 0; i < 63; ++i) session.Send(large);
  EXPECT_EQ(cancels, 0);
  for (int i = 0; i < 2; ++i) session.Send(large);
  EXPECT_GE(cancels, 1);
}

}  // namespace
}  // namespace lcab::coordinator
