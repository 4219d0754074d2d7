#include "worker/channel.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "lcab/v1/runner.pb.h"

namespace lcab::worker {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

class ChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pair = MakeChannelPair();
    ASSERT_TRUE(pair.ok()) << pair.status();
    near_ = std::make_unique<Channel>(std::move(pair->first));
    far_ = std::make_unique<Channel>(std::move(pair->second));
  }
  std::unique_ptr<Channel> near_, far_;
};

v1::FromRunner Progress(int trial, std::string stage) {
  v1::FromRunner message;
  message.mutable_progress()->set_trial(trial);
  message.mutable_progress()->set_stage(std::move(stage));
  return message;
}

TEST_F(ChannelTest, MessagesArriveInOrderAndWhole) {
  for (int trial = 0; trial < 100; ++trial) {
    ASSERT_TRUE(near_->Write(Progress(trial, std::string(trial * 7, 'x')), Soon()).ok());
  }
  for (int trial = 0; trial < 100; ++trial) {
    v1::FromRunner message;
    ASSERT_TRUE(far_->Read(message, Soon()).ok());
    EXPECT_EQ(message.progress().trial(), trial);
    EXPECT_EQ(message.progress().stage().size(), trial * 7u);
  }
}

TEST_F(ChannelTest, AnEmptyMessageIsAMessage) {
  ASSERT_TRUE(near_->Write(v1::FromRunner(), Soon()).ok());
  v1::FromRunner message = Progress(1, "x");
  ASSERT_TRUE(far_->Read(message, Soon()).ok());
  EXPECT_EQ(message.message_case(), v1::FromRunner::MESSAGE_NOT_SET);
}

TEST_F(ChannelTest, AMessageLargerThanTheSocketsBufferPasses) {
  const std::string text(20 << 20, 'y');
  std::thread writer([&] { EXPECT_TRUE(near_->Write(Progress(3, text), Soon()).ok()); });
  v1::FromRunner message;
  EXPECT_TRUE(far_->Read(message, Soon()).ok());
  writer.join();
  EXPECT_EQ(message.progress().stage(), text);
}

TEST_F(ChannelTest, WritersDoNotTearEachOthersMessages) {
  constexpr int kWriters = 4, kMessages = 50;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int n = 0; n < kMessages; ++n) {
        EXPECT_TRUE(near_->Write(Progress(writer, std::string(9000, 'a' + writer)), Soon()).ok());
      }
    });
  }
  std::vector<int> count(kWriters);
  for (int n = 0; n < kWriters * kMessages; ++n) {
    v1::FromRunner message;
    ASSERT_TRUE(far_->Read(message, Soon()).ok());
    const int writer = message.progress().trial();
    EXPECT_EQ(message.progress().stage(), std::string(9000, 'a' + writer));
    ++count[writer];
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(count, std::vector<int>(kWriters, kMessages));
}

TEST_F(ChannelTest, ReadingAClosedChannelIsUnavailableAfterWhatWasSent) {
  ASSERT_TRUE(near_->Write(Progress(1, "last"), Soon()).ok());
  near_.reset();
  v1::FromRunner message;
  EXPECT_TRUE(far_->Read(message, Soon()).ok());
  EXPECT_EQ(far_->Read(message, Soon()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(far_->Write(message, Soon()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(ChannelTest, AReaderThatStopsDoesNotBlockTheWriterForEver) {
  const absl::Status status =
      near_->Write(Progress(1, std::string(8 << 20, 'z')), absl::Now() + absl::Milliseconds(20));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  // Half a message is on its way: nothing may follow it.
  EXPECT_FALSE(near_->Write(Progress(2, ""), Soon()).ok());
}

TEST_F(ChannelTest, ShutdownWakesTheReader) {
  std::thread reader([&] {
    v1::FromRunner message;
    EXPECT_EQ(far_->Read(message, Soon()).code(), absl::StatusCode::kCancelled);
  });
  far_->Shutdown();
  reader.join();
  v1::FromRunner message;
  EXPECT_EQ(near_->Read(message, Soon()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(ChannelTest, TryReadDoesNotWait) {
  v1::FromRunner message;
  absl::StatusOr<bool> read = far_->TryRead(message);
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(*read);
}

TEST_F(ChannelTest, WhatIsNoMessageIsDataLoss) {
  const std::string absurd = "\xFF\xFF\xFF\xFF rubbish";
  ASSERT_EQ(send(near_->fd(), absurd.data(), absurd.size(), 0), ssize_t(absurd.size()));
  v1::FromRunner message;
  EXPECT_EQ(far_->Read(message, Soon()).code(), absl::StatusCode::kDataLoss);
}

TEST_F(ChannelTest, BytesThatDoNotParseAreDataLoss) {
  const std::string bad("\x03\x00\x00\x00\xFF\xFF\xFF", 7);
  ASSERT_EQ(send(near_->fd(), bad.data(), bad.size(), 0), ssize_t(bad.size()));
  v1::FromRunner message;
  EXPECT_EQ(far_->Read(message, Soon()).code(), absl::StatusCode::kDataLoss);
}

TEST_F(ChannelTest, AMessageAboveTheLimitIsRefusedAndTheChannelStaysGood) {
  const std::string text(Channel::kMaxMessageBytes, 'x');
  EXPECT_EQ(near_->Write(Progress(1, text), Soon()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(near_->Write(Progress(1, "short"), Soon()).ok());
  v1::FromRunner message;
  EXPECT_TRUE(far_->Read(message, Soon()).ok());
  EXPECT_EQ(message.progress().stage(), "short");
}

}  // namespace
}  // namespace lcab::worker
