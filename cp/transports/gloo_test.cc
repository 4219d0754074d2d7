#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "cp/transport.h"
#include "fmt/format.h"
#include "gloo/common/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(20);

template <typename T>
SendBuffer To(int peer, const std::vector<T>& data) {
  return {peer, std::as_bytes(std::span(data))};
}
template <typename T>
ReceiveBuffer From(int peer, std::vector<T>& data) {
  return {peer, std::as_writable_bytes(std::span(data))};
}

absl::StatusOr<std::unique_ptr<Communicator>> Connect(int rank, int ranks, Rendezvous& rendezvous,
                                                      absl::Duration timeout = kLimit) {
  return MakeGlooCommunicator({.rank = rank, .ranks = ranks, .name = "test", .timeout = timeout},
                              rendezvous);
}

// Runs `body` once a rank, each in a thread, and returns when all are done.
void OnRanks(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

// Connects all ranks, then runs `body` on each. Communicators stay until all are done: to a peer,
// one that goes looks like a process that dies.
void OnConnectedRanks(int ranks, const std::function<void(Communicator&)>& body) {
  LocalRendezvous rendezvous;
  std::latch done(ranks);
  OnRanks(ranks, [&](int rank) {
    auto communicator = Connect(rank, ranks, rendezvous);
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    body(**communicator);
    done.arrive_and_wait();
  });
}

TEST(GlooCommunicator, MessagesOfAnExchangeArriveInTheOrderSent) {
  OnConnectedRanks(3, [](Communicator& communicator) {
    const int next = (communicator.rank() + 1) % 3, previous = (communicator.rank() + 2) % 3;
    for (int round = 0; round < 20; ++round) {
      const std::vector<int> first(1000, communicator.rank() * 100 + round);
      const std::vector<int> second(7, -communicator.rank() - round);
      std::vector<int> got_first(1000), got_second(7);
      const std::array sends = {To(next, first), To(next, second)};
      const std::array receives = {From(previous, got_first), From(previous, got_second)};
      ASSERT_TRUE(communicator.Exchange(sends, receives, absl::Now() + kLimit).ok());
      EXPECT_EQ(got_first, std::vector<int>(1000, previous * 100 + round));
      EXPECT_EQ(got_second, std::vector<int>(7, -previous - round));
    }
  });
}

TEST(GlooCommunicator, MessagesToOneselfAreCopiedAndNotCounted) {
  OnConnectedRanks(2, [](Communicator& communicator) {
    const std::vector<int> sent(10, 5);
    std::vector<int> got(10);
    const SendBuffer send = To(communicator.rank(), sent);
    const ReceiveBuffer receive = From(communicator.rank(), got);
    ASSERT_TRUE(communicator.Exchange({&send, 1}, {&receive, 1}, absl::Now() + kLimit).ok());
    EXPECT_EQ(got, sent);
    EXPECT_EQ(communicator.bytes_sent(), 0);
  });
}

TEST(GlooCommunicator, CountsThePayloadOfMessagesAndNothingElse) {
  OnConnectedRanks(4, [](Communicator& communicator) {
    ASSERT_TRUE(communicator.Barrier(absl::Now() + kLimit).ok());
    EXPECT_EQ(communicator.bytes_sent(), 0);
    // Rank r sends r + 1 bytes to each other rank, and an empty message that is not sent.
    const std::vector<std::byte> mine(static_cast<size_t>(communicator.rank()) + 1);
    const std::vector<std::byte> nothing;
    std::vector<std::vector<std::byte>> theirs;
    std::vector<SendBuffer> sends;
    std::vector<ReceiveBuffer> receives;
    for (int peer = 0; peer < 4; ++peer) theirs.emplace_back(static_cast<size_t>(peer) + 1);
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == communicator.rank()) continue;
      sends.push_back(To(peer, mine));
      sends.push_back(To(peer, nothing));
      receives.push_back(From(peer, theirs[static_cast<size_t>(peer)]));
    }
    ASSERT_TRUE(communicator.Exchange(sends, receives, absl::Now() + kLimit).ok());
    EXPECT_EQ(communicator.bytes_sent(), 3 * (communicator.rank() + 1));
    communicator.ResetBytesSent();
    EXPECT_EQ(communicator.bytes_sent(), 0);
  });
}

TEST(GlooCommunicator, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 5;
  std::atomic<int> arrived = 0;
  OnConnectedRanks(kRanks, [&](Communicator& communicator) {
    for (int round = 1; round <= 10; ++round) {
      ++arrived;
      ASSERT_TRUE(communicator.Barrier(absl::Now() + kLimit).ok());
      EXPECT_GE(arrived.load(), round * kRanks);
      ASSERT_TRUE(communicator.Barrier(absl::Now() + kLimit).ok());
    }
  });
}

TEST(GlooCommunicator, ConnectingNamesTheRanksThatDidNotCome) {
  LocalRendezvous rendezvous;
  const absl::Status status = Connect(0, 3, rendezvous, absl::Milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ranks 1, 2 did not come"));
}

TEST(GlooCommunicator, AnAbortedRendezvousEndsConnectingWithItsReason) {
  LocalRendezvous rendezvous;
  auto connecting =
      std::async(std::launch::async, [&] { return Connect(0, 2, rendezvous).status(); });
  rendezvous.Abort("rank 1 ran out of memory");
  const absl::Status status = connecting.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 ran out of memory"));
}

TEST(GlooCommunicator, RefusesAnInterfaceThatThisHostDoesNotHave) {
  LocalRendezvous rendezvous;
  OnRanks(2, [&](int rank) {
    const absl::Status status =
        MakeGlooCommunicator({.rank = rank, .ranks = 2, .name = "x", .interface = "no-such-nic"},
                             rendezvous)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-nic"));
  });
}

TEST(GlooCommunicator, BindsToANamedInterface) {
  LocalRendezvous rendezvous;
  OnRanks(2, [&](int rank) {
    auto communicator = MakeGlooCommunicator(
        {.rank = rank, .ranks = 2, .name = "x", .interface = "lo"}, rendezvous);
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    EXPECT_TRUE((*communicator)->Barrier(absl::Now() + kLimit).ok());
  });
}

TEST(GlooCommunicator, ADeadlineNamesThePeerThatWasWaitedFor) {
  OnConnectedRanks(3, [](Communicator& communicator) {
    if (communicator.rank() != 0) {
      // Nobody sends to rank 0; both stay until it has given up.
      std::vector<int> never(1);
      const ReceiveBuffer receive = From(0, never);
      EXPECT_FALSE(communicator.Exchange({}, {&receive, 1}, absl::Now() + kLimit).ok());
      return;
    }
    std::vector<int> got(4);
    const ReceiveBuffer receive = From(2, got);
    const absl::Status status =
        communicator.Exchange({}, {&receive, 1}, absl::Now() + absl::Milliseconds(100));
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("for rank 2"), HasSubstr("'test'")));
  });
}

TEST(GlooCommunicator, APeerThatLeavesIsNamedAtOnce) {
  const absl::Time start = absl::Now();
  LocalRendezvous rendezvous;
  OnRanks(2, [&](int rank) {
    auto communicator = Connect(rank, 2, rendezvous);
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    if (rank == 1) return;  // destroys the communicator
    std::vector<int> got(4);
    const ReceiveBuffer receive = From(1, got);
    const absl::Status status = (*communicator)->Exchange({}, {&receive, 1}, absl::Now() + kLimit);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("lost rank 1"));
  });
  EXPECT_LT(absl::Now() - start, kLimit / 2);
}

TEST(GlooCommunicator, AbortWakesAPendingExchangeAndEndsLaterOnes) {
  const absl::Time start = absl::Now();
  OnConnectedRanks(3, [](Communicator& communicator) {
    // Each waits for the next, for ever.
    std::vector<int> got(4);
    const ReceiveBuffer receive = From((communicator.rank() + 1) % 3, got);
    const std::jthread other([&] { communicator.Abort("a test asked for it"); });
    const absl::Status status = communicator.Exchange({}, {&receive, 1}, absl::Now() + kLimit);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a test asked for it"));
    EXPECT_EQ(communicator.Barrier(absl::Now() + kLimit).code(), absl::StatusCode::kAborted);
  });
  EXPECT_LT(absl::Now() - start, kLimit / 2);
}

TEST(GlooCommunicator, RefusesPeersThatDoNotExist) {
  OnConnectedRanks(2, [](Communicator& communicator) {
    std::vector<int> data(1);
    const SendBuffer send = To(2, data);
    EXPECT_EQ(communicator.Exchange({&send, 1}, {}, absl::Now() + kLimit).code(),
              absl::StatusCode::kInvalidArgument);
    const ReceiveBuffer receive = From(-1, data);
    EXPECT_EQ(communicator.Exchange({}, {&receive, 1}, absl::Now() + kLimit).code(),
              absl::StatusCode::kInvalidArgument);
  });
}

// A rendezvous over a socket pair: the child of a fork asks its parent.
class SocketRendezvous : public Rendezvous {
 public:
  explicit SocketRendezvous(int socket) : socket_(socket) {}
  absl::Status Put(std::string_view key, std::string_view value) override {
    Write("put");
    Write(key);
    Write(value);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(std::string_view key, absl::Time) override {
    Write("get");
    Write(key);
    return Read().value_or("");
  }

  // In the parent, until the child is gone.
  void Serve(Rendezvous& rendezvous) {
    while (const std::optional<std::string> verb = Read()) {
      const std::string key = Read().value_or("");
      if (*verb == "put") {
        ASSERT_TRUE(rendezvous.Put(key, Read().value_or("")).ok());
      } else {
        Write(rendezvous.Get(key, absl::Now() + kLimit).value_or(""));
      }
    }
  }

 private:
  void Write(std::string_view text) {
    const auto size = static_cast<uint32_t>(text.size());
    std::string frame(sizeof size, '\0');
    std::memcpy(frame.data(), &size, sizeof size);
    frame += text;
    EXPECT_EQ(send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
  }
  std::optional<std::string> Read() {
    uint32_t size = 0;
    if (recv(socket_, &size, sizeof size, MSG_WAITALL) != sizeof size) return std::nullopt;
    std::string text(size, '\0');
    if (recv(socket_, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
      return std::nullopt;
    }
    return text;
  }

  const int socket_;
};

// Case C6, the transport's side: rank 1 of 4 is killed in mid-exchange.
TEST(GlooCommunicator, AKilledProcessIsNamedByThoseThatWaitForIt) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
  const pid_t child = fork();  // no other thread is running
  ASSERT_GE(child, 0);
  const auto pass_round = [](Communicator& communicator, int rounds) {
    const std::vector<int> mine(100'000, communicator.rank());
    std::vector<int> theirs(mine.size());
    const SendBuffer send = To((communicator.rank() + 1) % 4, mine);
    const ReceiveBuffer receive = From((communicator.rank() + 3) % 4, theirs);
    absl::Status status;
    for (int i = 0; i < rounds && status.ok(); ++i) {
      status = communicator.Exchange({&send, 1}, {&receive, 1}, absl::Now() + kLimit);
    }
    return status;
  };
  if (child == 0) {
    close(sockets[0]);
    SocketRendezvous rendezvous(sockets[1]);
    auto communicator = Connect(1, 4, rendezvous);
    if (communicator.ok() && pass_round(**communicator, 10).ok()) raise(SIGKILL);
    _exit(1);
  }
  close(sockets[1]);
  LocalRendezvous rendezvous;
  const absl::Time start = absl::Now();
  {
    std::jthread server([&] { SocketRendezvous(sockets[0]).Serve(rendezvous); });
    // As a runner does: the first to see the fault aborts all ranks.
    std::mutex mutex;
    std::vector<Communicator*> all;
    std::latch done(3);
    OnRanks(4, [&](int rank) {
      if (rank == 1) return;
      auto communicator = Connect(rank, 4, rendezvous);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      {
        const std::lock_guard lock(mutex);
        all.push_back(communicator->get());
      }
      const absl::Status status = pass_round(**communicator, 1000);
      EXPECT_FALSE(status.ok());
      std::unique_lock lock(mutex);
      if (status.code() == absl::StatusCode::kUnavailable) {
        EXPECT_NE(rank, 3) << "rank 3 does not wait for rank 1: " << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("lost rank 1"));
        for (Communicator* other : all) other->Abort(status.ToString());
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      }
      lock.unlock();
      done.arrive_and_wait();
    });
  }
  EXPECT_LT(absl::Now() - start, kLimit / 2);
  close(sockets[0]);
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

TEST(SingleCommunicator, KnowsNoOtherRank) {
  const std::unique_ptr<Communicator> communicator = MakeSingleCommunicator();
  const std::vector<int> sent = {1, 2, 3};
  std::vector<int> got(3);
  const SendBuffer send = To(0, sent);
  const ReceiveBuffer receive = From(0, got);
  EXPECT_TRUE(communicator->Exchange({&send, 1}, {&receive, 1}, absl::Now()).ok());
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(communicator->Barrier(absl::Now()).ok());
  const SendBuffer other = To(1, sent);
  EXPECT_EQ(communicator->Exchange({&other, 1}, {}, absl::Now()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(communicator->Exchange({&send, 1}, {}, absl::Now()).code(),
            absl::StatusCode::kInvalidArgument);
  communicator->Abort("enough");
  EXPECT_EQ(communicator->Barrier(absl::Now()).code(), absl::StatusCode::kAborted);
}

TEST(LocalRendezvous, KeysAreWrittenOnceAndWaitedFor) {
  LocalRendezvous rendezvous;
  auto waiting =
      std::async(std::launch::async, [&] { return rendezvous.Get("a", absl::Now() + kLimit); });
  EXPECT_TRUE(rendezvous.Put("a", "1").ok());
  EXPECT_EQ(waiting.get().value(), "1");
  EXPECT_TRUE(rendezvous.Put("a", "1").ok());
  EXPECT_EQ(rendezvous.Put("a", "2").code(), absl::StatusCode::kAlreadyExists);
  const absl::Status none = rendezvous.Get("b", absl::Now()).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(none.message()), HasSubstr("'b'"));
}

// As when a peer dies before its connection was accepted: Gloo's own thread throws.
TEST(StrayExceptionDeathTest, OfTheTransportEndsTheProcessAsAskedAndOthersAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto act = [](const char* what) {
    std::fprintf(stderr, "stray: %s", what);
    _exit(5);
  };
  EXPECT_EXIT(
      {
        OnStrayTransportException(act);
        std::thread([] { throw gloo::IoException("connection reset by peer"); }).join();
      },
      ::testing::ExitedWithCode(5), "stray: connection reset by peer");
  EXPECT_EXIT(
      {
        OnStrayTransportException(act);
        std::thread([] { throw std::runtime_error("of a kernel"); }).join();
      },
      ::testing::KilledBySignal(SIGABRT), "of a kernel");
}

}  // namespace
}  // namespace lcab::cp
