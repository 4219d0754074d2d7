#include "worker/runner/connection.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/channel.h"

namespace lcab::runner {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

// A connection and the worker's end of its channel.
class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    auto [ours, theirs] = worker::MakeChannelPair().value();
    worker_ = std::make_unique<worker::Channel>(std::move(ours));
    connection_ = std::make_unique<Connection>(std::move(theirs));
    EXPECT_TRUE(Read().ready());
  }

  v1::FromRunner Read() {
    v1::FromRunner message;
    EXPECT_TRUE(worker_->Read(message, Soon()).ok());
    return message;
  }
  void Write(const v1::ToRunner& message) { EXPECT_TRUE(worker_->Write(message, Soon()).ok()); }
  void Abort(const std::string& reason) {
    v1::ToRunner message;
    message.mutable_abort()->set_reason(reason);
    Write(message);
  }
  void Run(const std::string& assignment) {
    v1::ToRunner message;
    message.mutable_run()->set_assignment(assignment);
    Write(message);
  }

  std::unique_ptr<worker::Channel> worker_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, CohortsComeInOrderUntilTheWorkerEndsTheRunner) {
  Run("a");
  Run("b");
  EXPECT_EQ(connection_->NextCohort()->assignment(), "a");
  EXPECT_EQ(connection_->NextCohort()->assignment(), "b");
  v1::ToRunner message;
  message.set_shutdown(true);
  Write(message);
  EXPECT_FALSE(connection_->NextCohort().has_value());
}

TEST_F(ConnectionTest, WorkerThatIsGoneEndsTheRunner) {
  worker_->Shutdown();
  EXPECT_FALSE(connection_->NextCohort().has_value());
  EXPECT_EQ(connection_->Get("key", Soon()).status().code(), absl::StatusCode::kAborted);
}

TEST_F(ConnectionTest, GetsAreAnsweredByRequestWhateverTheOrder) {
  auto first = std::async(std::launch::async, [&] { return connection_->Get("a", Soon()); });
  const v1::FromRunner a = Read();
  auto second = std::async(std::launch::async, [&] { return connection_->Get("b", Soon()); });
  const v1::FromRunner b = Read();
  for (const v1::FromRunner* get : {&b, &a}) {
    EXPECT_GT(get->get().timeout().seconds(), 0);
    v1::ToRunner message;
    message.mutable_value()->set_request(get->get().request());
    message.mutable_value()->set_value("value of " + get->get().key());
    Write(message);
  }
  EXPECT_EQ(first.get().value(), "value of a");
  EXPECT_EQ(second.get().value(), "value of b");
}

TEST_F(ConnectionTest, ErrorOfAGetIsItsStatus) {
  auto get = std::async(std::launch::async, [&] { return connection_->Get("a", Soon()); });
  v1::ToRunner message;
  message.mutable_value()->set_request(Read().get().request());
  message.mutable_value()->set_code(static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  message.mutable_value()->set_error("no such key in time");
  Write(message);
  EXPECT_EQ(get.get().status(), absl::DeadlineExceededError("no such key in time"));
}

TEST_F(ConnectionTest, AbortWakesAGetAndCallsBackOnce) {
  std::promise<std::string> called;
  connection_->OnAbort([&](const std::string& reason) { called.set_value(reason); });
  auto get = std::async(std::launch::async, [&] { return connection_->Get("a", Soon()); });
  Read();
  Abort("rank 1 is gone");
  Abort("and again");
  EXPECT_EQ(get.get().status(), absl::AbortedError("rank 1 is gone"));
  EXPECT_EQ(called.get_future().get(), "rank 1 is gone");
  EXPECT_EQ(connection_->abort_reason(), "rank 1 is gone");
  EXPECT_EQ(connection_->Put("k", "v").code(), absl::StatusCode::kAborted);
}

TEST_F(ConnectionTest, NextCohortStartsWithoutTheAbortOfTheLast) {
  Abort("too slow");
  Run("b");
  ASSERT_EQ(connection_->NextCohort()->assignment(), "b");
  EXPECT_EQ(connection_->abort_reason(), std::nullopt);
  EXPECT_TRUE(connection_->Put("k", "v").ok());
  EXPECT_EQ(Read().put().key(), "k");
}

}  // namespace
}  // namespace lcab::runner
