#include "worker/outbox.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace lcab::worker {
namespace {

class OutboxTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fmt::format("{}/outbox_test_{}", testing::TempDir(), getpid());
    std::filesystem::remove(path_);
  }

  std::unique_ptr<Outbox> Open(const std::string& incarnation) const {
    auto outbox = Outbox::Open(path_, incarnation);
    EXPECT_TRUE(outbox.ok()) << outbox.status();
    return outbox.ok() ? *std::move(outbox) : nullptr;
  }

  static v1::AssignmentEvent TrialEnded(int trial) {
    v1::AssignmentEvent event;
    event.set_assignment("assignments/1");
    event.mutable_trial_ended()->set_trial(trial);
    return event;
  }
  static v1::AssignmentEvent Progress() {
    v1::AssignmentEvent event;
    event.mutable_progress()->set_stage("sample");
    return event;
  }
  static v1::AssignmentEvent Started() {
    v1::AssignmentEvent event;
    event.mutable_started()->set_trial(1);
    return event;
  }
  static v1::AssignmentEvent Ended() {
    v1::AssignmentEvent event;
    event.mutable_ended();
    return event;
  }

  // "incarnation/sequence" of all that would be sent.
  static std::vector<std::string> Drain(Outbox& outbox) {
    std::vector<std::string> sent;
    while (auto event = outbox.Next()) {
      sent.push_back(event->incarnation() + "/" + std::to_string(event->sequence()));
    }
    return sent;
  }

  std::string path_;
};

using Names = std::vector<std::string>;

TEST_F(OutboxTest, EventsAreNumberedFromOneAndSentOnceAConnection) {
  auto outbox = Open("a");
  ASSERT_TRUE(outbox->Add(Started()).ok());
  ASSERT_TRUE(outbox->Add(TrialEnded(1)).ok());
  EXPECT_EQ(Drain(*outbox), (Names{"a/1", "a/2"}));
  EXPECT_EQ(Drain(*outbox), Names{});
  EXPECT_EQ(outbox->unacknowledged(), 2);
}

TEST_F(OutboxTest, ANewConnectionCarriesWhatIsNotAcknowledged) {
  auto outbox = Open("a");
  for (int trial = 0; trial < 4; ++trial) ASSERT_TRUE(outbox->Add(TrialEnded(trial)).ok());
  Drain(*outbox);
  outbox->Acknowledge("a", 2);
  outbox->Rewind();
  EXPECT_EQ(Drain(*outbox), (Names{"a/3", "a/4"}));
}

TEST_F(OutboxTest, AnAcknowledgementInMidConnectionRepeatsAndSkipsNothing) {
  auto outbox = Open("a");
  for (int trial = 0; trial < 4; ++trial) ASSERT_TRUE(outbox->Add(TrialEnded(trial)).ok());
  outbox->Next();
  outbox->Next();
  outbox->Acknowledge("a", 1);
  EXPECT_EQ(Drain(*outbox), (Names{"a/3", "a/4"}));
}

TEST_F(OutboxTest, StaleProgressIsNotSentAgain) {
  auto outbox = Open("a");
  ASSERT_TRUE(outbox->Add(Started()).ok());
  ASSERT_TRUE(outbox->Add(Progress()).ok());
  ASSERT_TRUE(outbox->Add(TrialEnded(1)).ok());
  Drain(*outbox);
  outbox->Rewind();
  EXPECT_EQ(Drain(*outbox), (Names{"a/1", "a/3"}));
}

TEST_F(OutboxTest, TerminalEventsSurviveARestartUnderTheirOwnIncarnation) {
  {
    auto outbox = Open("a");
    ASSERT_TRUE(outbox->Add(Started()).ok());
    ASSERT_TRUE(outbox->Add(TrialEnded(7)).ok());
    ASSERT_TRUE(outbox->Add(Ended()).ok());
  }
  auto outbox = Open("b");
  ASSERT_TRUE(outbox->Add(TrialEnded(8)).ok());
  EXPECT_EQ(Drain(*outbox), (Names{"a/2", "a/3", "b/1"}));
  outbox->Acknowledge("a", 3);
  EXPECT_EQ(outbox->unacknowledged(), 1);
}

TEST_F(OutboxTest, AnEmptyBoxLeavesAnEmptyFile) {
  {
    auto outbox = Open("a");
    ASSERT_TRUE(outbox->Add(TrialEnded(7)).ok());
    EXPECT_GT(std::filesystem::file_size(path_), 0u);
    outbox->Acknowledge("a", 1);
    EXPECT_EQ(std::filesystem::file_size(path_), 0u);
    ASSERT_TRUE(outbox->Add(TrialEnded(8)).ok());
  }
  auto outbox = Open("b");
  EXPECT_EQ(Drain(*outbox), Names{"a/2"});
}

// A kill in mid-write leaves any prefix of the file.
TEST_F(OutboxTest, EveryTornEndLosesOnlyTheTornRecord) {
  {
    auto outbox = Open("a");
    for (int trial = 1; trial <= 3; ++trial) ASSERT_TRUE(outbox->Add(TrialEnded(trial)).ok());
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_EQ(whole.size() % 3, 0u);
  const size_t record = whole.size() / 3;
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
    auto outbox = Open("b");
    EXPECT_EQ(outbox->unacknowledged(), static_cast<int64_t>(bytes / record)) << bytes;
    EXPECT_EQ(outbox->dropped_bytes(), static_cast<int64_t>(bytes % record)) << bytes;
    // What is written next can be read again.
    ASSERT_TRUE(outbox->Add(TrialEnded(9)).ok());
    outbox.reset();
    EXPECT_EQ(Open("c")->unacknowledged(), static_cast<int64_t>(bytes / record) + 1) << bytes;
  }
}

TEST_F(OutboxTest, ADamagedRecordAndWhatFollowsItAreDropped) {
  {
    auto outbox = Open("a");
    for (int trial = 1; trial <= 3; ++trial) ASSERT_TRUE(outbox->Add(TrialEnded(trial)).ok());
  }
  const auto size = std::filesystem::file_size(path_);
  {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(size / 3 + 10));
    file.put('\x7F');
  }
  auto outbox = Open("b");
  EXPECT_EQ(Drain(*outbox), Names{"a/1"});
  EXPECT_EQ(outbox->dropped_bytes(), static_cast<int64_t>(2 * size / 3));
}

TEST_F(OutboxTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(Outbox::Open("/no/such/folder/outbox", "a").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(OutboxTest, AFullDiskIsReportedAndTheEventIsStillSent) {
  auto outbox = Open("a");
  ASSERT_TRUE(outbox->Add(TrialEnded(1)).ok());
  // A limit on the size of files stands in for a full disk: a write beyond it fails.
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = std::filesystem::file_size(path_) + 5;
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = outbox->Add(TrialEnded(2));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(Drain(*outbox), (Names{"a/1", "a/2"}));
  // The half that was written does not stand in the way of what follows.
  ASSERT_TRUE(outbox->Add(TrialEnded(3)).ok());
  outbox.reset();
  EXPECT_EQ(Drain(*Open("b")), (Names{"a/1", "a/3"}));
}

TEST_F(OutboxTest, WhatIsNoFileIsRefused) {
  EXPECT_EQ(Outbox::Open("/dev/zero", "a").status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lcab::worker
