#include "measurement/votes.h"

#include <fmt/format.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "measurement/rendezvous_for_test.h"

namespace lcab::measurement {
namespace {

using ::testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

// Runs body(rank, votes) on a thread a rank and returns what each gave.
template <typename Body>
std::vector<Verdict> OnRanks(int ranks, cp::Rendezvous& rendezvous, const Body& body) {
  std::vector<Verdict> verdicts(static_cast<size_t>(ranks));
  std::vector<std::thread> threads(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads[static_cast<size_t>(rank)] = std::thread([&, rank] {
      Votes votes(rank, ranks, "t0", &rendezvous);
      verdicts[static_cast<size_t>(rank)] = body(rank, votes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return verdicts;
}

std::string Join(std::span<const std::string> contents) {
  std::string joined;
  for (const std::string& content : contents) joined += content + ";";
  return joined;
}

TEST(VotesTest, EveryRankGetsWhatRankZeroMadeOfAllBallots) {
  FakeRendezvous rendezvous;
  const auto verdicts = OnRanks(4, rendezvous, [](int rank, Votes& votes) {
    Verdict verdict;
    for (int i = 0; i < 3; ++i) {
      verdict = votes.Hold("sum", absl::OkStatus(), fmt::format("{}.{}", i, rank), Soon(), Join);
    }
    return verdict;
  });
  for (const Verdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.status.ok()) << verdict.status;
    EXPECT_EQ(verdict.content, "2.0;2.1;2.2;2.3;");
    EXPECT_EQ(verdict.rank, -1);
  }
}

TEST(VotesTest, OneRankNeedsNoRendezvous) {
  Votes votes(0, 1, "t0", nullptr);
  EXPECT_EQ(votes.Hold("x", absl::OkStatus(), "a", Soon(), Join).content, "a;");
  EXPECT_EQ(votes.Hold("x", absl::InternalError("broken"), "", Soon()).status,
            absl::InternalError("broken"));
}

TEST(VotesTest, OneRanksFailureIsToldToAllWithItsRank) {
  FakeRendezvous rendezvous;
  const auto verdicts = OnRanks(4, rendezvous, [](int rank, Votes& votes) {
    return votes.Hold("ready",
                      rank == 2 ? absl::ResourceExhaustedError("no memory") : absl::OkStatus(), "",
                      Soon());
  });
  for (const Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.status, absl::ResourceExhaustedError("no memory"));
    EXPECT_EQ(verdict.rank, 2);
  }
}

TEST(VotesTest, CauseIsNotTheRankThatLostItsPeer) {
  const absl::Status lost = absl::UnavailableError("rank 3 closed the connection");
  const absl::Status waited = absl::DeadlineExceededError("rank 3 did not come");
  const absl::Status cause = absl::InternalError("kernel failed");
  EXPECT_EQ(CauseAmong(std::vector<absl::Status>{lost, waited, absl::OkStatus(), cause}), 3);
  EXPECT_EQ(CauseAmong(std::vector<absl::Status>{absl::OkStatus(), lost, waited, waited}), 2);
  EXPECT_EQ(CauseAmong(std::vector<absl::Status>{absl::AbortedError("x"), lost}), 1);
  EXPECT_EQ(CauseAmong(std::vector<absl::Status>{absl::OkStatus(), absl::OkStatus()}), -1);
}

TEST(VotesTest, RankThatDoesNotComeIsNamedToTheOthers) {
  FakeRendezvous rendezvous;
  rendezvous.Expire();
  Votes zero(0, 3, "t0", &rendezvous), one(1, 3, "t0", &rendezvous);
  // Rank 1 has voted, having lost its neighbour; rank 2 says nothing.
  Verdict of_one = one.Hold("batch", absl::UnavailableError("rank 2 is gone"), "", Soon());
  EXPECT_EQ(of_one.rank, 1);  // no verdict came, so what it knows itself stands
  const Verdict verdict = zero.Hold("batch", absl::OkStatus(), "", Soon());
  EXPECT_EQ(verdict.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(verdict.status.message()),
              HasSubstr("rank 2 did not come to the vote 'batch'"));
  EXPECT_EQ(verdict.rank, 2);
}

TEST(VotesTest, FailureThatIsKnownShortensTheWaitForTheOthers) {
  FakeRendezvous rendezvous;
  rendezvous.Expire();
  Votes zero(0, 3, "t0", &rendezvous);
  const absl::Time deadline = absl::Now() + absl::Hours(1);
  const Verdict verdict =
      zero.Hold("batch", absl::UnavailableError("rank 1 closed the connection"), "", deadline);
  EXPECT_LE(rendezvous.deadline("t0/vote/1/ballot/1"), absl::Now() + kFailureGrace);
  EXPECT_LE(rendezvous.deadline("t0/vote/1/ballot/2"), absl::Now() + kFailureGrace);
  // Rank 1 is silent: a better cause than the rank that noticed.
  EXPECT_EQ(verdict.rank, 1);
}

TEST(VotesTest, OtherRanksWaitLongerThanRankZeroDoes) {
  FakeRendezvous rendezvous;
  const absl::Time deadline = Soon();
  OnRanks(2, rendezvous,
          [&](int, Votes& votes) { return votes.Hold("x", absl::OkStatus(), "", deadline); });
  EXPECT_EQ(rendezvous.deadline("t0/vote/1/ballot/1"), deadline);
  EXPECT_GT(rendezvous.deadline("t0/vote/1/verdict"), deadline);
}

TEST(VotesTest, SilentRankZeroIsNamed) {
  FakeRendezvous rendezvous;
  rendezvous.Expire();
  Votes one(1, 2, "t0", &rendezvous);
  const Verdict verdict = one.Hold("ready", absl::OkStatus(), "", Soon());
  EXPECT_EQ(verdict.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(verdict.status.message()),
              HasSubstr("rank 0 gave no verdict on 'ready'"));
  EXPECT_EQ(verdict.rank, 0);
  EXPECT_FALSE(verdict.heard);
}

TEST(VotesTest, RanksThatHaveComeApartAreTold) {
  FakeRendezvous rendezvous;
  const auto verdicts = OnRanks(2, rendezvous, [](int rank, Votes& votes) {
    return votes.Hold(rank == 0 ? "batch" : "verify", absl::OkStatus(), "", Soon());
  });
  for (const Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(verdict.status.message()),
                HasSubstr("rank 0 votes on 'batch', rank 1 on 'verify'"));
  }
}

TEST(VotesTest, AbortEndsTheWaitOfEveryRank) {
  FakeRendezvous rendezvous;
  Votes zero(0, 3, "t0", &rendezvous), one(1, 3, "t0", &rendezvous);
  std::thread waiting_zero([&] {
    EXPECT_EQ(zero.Hold("x", absl::OkStatus(), "", Soon()).status, absl::AbortedError("cancelled"));
  });
  std::thread waiting_one([&] {
    EXPECT_EQ(one.Hold("x", absl::OkStatus(), "", Soon()).status, absl::AbortedError("cancelled"));
  });
  rendezvous.Abort("cancelled");
  waiting_zero.join();
  waiting_one.join();
}

TEST(VotesTest, DecisionThatFailsIsEverybodysVerdict) {
  FakeRendezvous rendezvous;
  const auto verdicts = OnRanks(2, rendezvous, [](int, Votes& votes) {
    return votes.Hold("digest", absl::OkStatus(), "", Soon(),
                      [](std::span<const std::string>) -> absl::StatusOr<std::string> {
                        return absl::FailedPreconditionError("plans differ");
                      });
  });
  for (const Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.status, absl::FailedPreconditionError("plans differ"));
  }
}

}  // namespace
}  // namespace lcab::measurement
