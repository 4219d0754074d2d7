// What watchers and readers get back: events, logs, samples.

#include <string>
#include <vector>

#include "coordinator/event_table.h"
#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EventTable, EventsAreNumberedWithoutGapsAndCarryTheJobAsItWasThen) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  world.Tell(w1, World::Ended(assign, 0, kOk));
  const std::vector<v1::JobEvent> events = world.Events(job);
  ASSERT_EQ(events.size(), 4U);
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i + 1));
  EXPECT_EQ(events[0].job().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(events[1].job().counts().running(), 1);
  EXPECT_EQ(events[1].trial(), TrialName(job, 0));
  EXPECT_THAT(events[1].message(), HasSubstr("w1 cpu:0"));
  EXPECT_EQ(events[2].trial_state(), v1::TRIAL_STATE_DONE);
  EXPECT_EQ(events[2].result().outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(events[2].spec().kernel().name(), "tiled");
  EXPECT_EQ(events[3].job().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(events[3].trial(), "");
}

// Case V3: 20 MiB on stderr, one line of 6 MiB.
TEST(EventTable, LongLogIsCutWithAMarkerThatSaysHowMuch) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  std::string printed;
  for (int line = 0; printed.size() < (14U << 20); ++line)
    printed += fmt::format("line {}\n", line);
  printed += std::string(6 << 20, 'x') + "\nthe end\n";
  for (size_t at = 0; at < printed.size(); at += 1 << 20) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    event.mutable_log()->set_rank(0);
    event.mutable_log()->set_text(printed.substr(at, 1 << 20));
    world.Tell(w1, event);
  }
  std::string kept;
  world.Read([&](Connection& db) {
    EXPECT_THAT(LogRanks(db, 1, 1), ElementsAre(0));
    for (int64_t offset = 0;;) {
      const LogPiece piece = LoadLog(db, 1, 1, 0, offset);
      if (piece.next == offset) break;
      EXPECT_LT(piece.text.size(), 128U << 10);
      kept += piece.text;
      offset = piece.next;
    }
  });
  const size_t marker = kept.find("\n[");
  ASSERT_NE(marker, std::string::npos);
  const size_t end = kept.find("]\n", marker);
  ASSERT_NE(end, std::string::npos);
  const size_t left_out = std::stoul(kept.substr(marker + 2));
  EXPECT_THAT(kept.substr(marker, end - marker), HasSubstr("bytes of this log were left out"));
  const std::string tail = kept.substr(end + 2);
  EXPECT_EQ(kept.substr(0, marker), printed.substr(0, marker));
  EXPECT_EQ(tail, printed.substr(printed.size() - tail.size()));
  EXPECT_EQ(marker + left_out + tail.size(), printed.size());
  EXPECT_LE(kept.size(), static_cast<size_t>(kMaxLogBytes) + 100);
  EXPECT_GE(kept.size(), static_cast<size_t>(kMaxLogBytes) - (128 << 10));
}

// Case V3: 4,000,000 samples of 8 ranks.
TEST(EventTable, FourMillionSamplesComeBackWhole) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  constexpr int64_t kIterations = 500'000;
  constexpr int64_t kChunk = 12'500;
  constexpr int kRanks = 8;
  for (int64_t first = 0; first < kIterations; first += kChunk) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    v1::SampleChunk& chunk = *event.mutable_samples()->mutable_chunk();
    chunk.set_first(first);
    chunk.set_ranks(kRanks);
    for (int64_t i = first; i < first + kChunk; ++i) {
      chunk.add_marks(0);
      for (int rank = 0; rank < kRanks; ++rank)
        chunk.add_seconds(static_cast<double>(i * kRanks + rank));
    }
    ASSERT_LT(event.ByteSizeLong(), 1U << 20);
    world.Tell(w1, event);
  }
  int64_t next = 0;
  world.Read([&](Connection& db) {
    for (int64_t after = -1;;) {
      const auto chunks = LoadSamples(db, 1, 1, after, 4);
      if (chunks.empty()) break;
      for (const v1::SampleChunk& chunk : chunks) {
        for (const double seconds : chunk.seconds())
          ASSERT_EQ(seconds, static_cast<double>(next++));
        after = chunk.first();
      }
    }
    EXPECT_EQ(CountSamples(db, 1, 1), kIterations);
  });
  EXPECT_EQ(next, kIterations * kRanks);
}

TEST(EventTable, SamplesThatAreMissingAreRemarked) {
  World world;
  auto& w1 = world.AddWorker("w1");
  world.Connect(w1);
  world.Submit(MakeExpansion({{"tiled"}}));
  world.Decide();
  const v1::Assign assign = world.TakeAssign("w1");
  v1::AssignmentEvent event;
  event.set_assignment(assign.assignment());
  event.mutable_samples()->mutable_chunk()->set_ranks(1);
  for (int i = 0; i < 3; ++i) {
    event.mutable_samples()->mutable_chunk()->add_seconds(1e-3);
    event.mutable_samples()->mutable_chunk()->add_marks(0);
  }
  world.Tell(w1, event);
  v1::AssignmentEvent ended = World::Ended(assign, 0, kOk);
  ended.mutable_trial_ended()->set_iterations(5);
  EXPECT_THAT(world.Tell(w1, ended), HasSubstr("3 of 5 samples"));
}

}  // namespace
}  // namespace lcab::coordinator
