// Failures that were reported of services like this one, over loopback.

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/test_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Case V1 over the wire, with the coordinator restarted in between.
TEST_F(ServiceTest, JobThatKillsItsRunnerEndsAfterThreeAttemptsAndTheOthersFinish) {
  Start();
  const v1::Job killer = Submit("1 tiled");
  std::vector<v1::Job> normal;
  for (int i = 0; i < 20; ++i) normal.push_back(Submit("1 ref"));
  int killed = 0;
  std::optional<TestWorker> worker;
  std::string incarnation = "1";
  const auto connect = [&] {
    worker.emplace(address(), TestWorker::Options{.incarnation = incarnation});
    worker->TakeWelcome();
    worker->Beat();
  };
  connect();
  for (int placed = 0; placed < 3 + 20; ++placed) {
    const v1::Assign assign = worker->TakeAssign();
    ASSERT_FALSE(assign.assignment().empty());
    const bool kills = assign.cohort().trials(0).kernel().name() == "tiled";
    killed += kills ? 1 : 0;
    if (kills && killed == 2) {
      // The coordinator is gone before the worker can tell; it tells the next one.
      worker.reset();
      Stop();
      Start();
      worker.emplace(address(), TestWorker::Options{.incarnation = incarnation,
                                                    .running = {assign.assignment()}});
      worker->TakeWelcome();
      worker->Beat({assign.assignment()});
      incarnation = "1";
    }
    v1::AssignmentEvent ended = Ended(
        assign, 0,
        kills ? MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, "killed by SIGKILL", 0)
              : MakeResult(v1::OUTCOME_OK));
    ended.set_incarnation(incarnation);
    ended.set_sequence(++sequence_);
    ASSERT_TRUE(worker->TellAgain(ended));
    v1::AssignmentEvent over = Over(assign);
    over.set_incarnation(incarnation);
    over.set_sequence(++sequence_);
    ASSERT_TRUE(worker->TellAgain(over));
  }
  EXPECT_EQ(killed, 3);
  const v1::Trial trial = GetTrial(killer.name(), 0);
  EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_CRASHED);
  ASSERT_EQ(trial.attempts_size(), 3);
  for (const v1::Attempt& attempt : trial.attempts())
    EXPECT_THAT(attempt.workers(), ElementsAre("w1"));
  for (const v1::Job& job : normal) {
    EXPECT_EQ(GetJob(job.name()).state(), v1::JOB_STATE_SUCCEEDED);
  }
}

// Case V2 over the wire: a cancel that races with everything, 200 times.
TEST_F(ServiceTest, CancelRacesEndInOneStateAndNeverInBoth) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  std::mt19937 random(7);
  std::map<v1::JobState, int> states;
  for (int i = 0; i < 200; ++i) {
    const v1::Job job = Submit("1 tiled");
    const int phase = i % 4;
    std::atomic<bool> completed = false;
    absl::Status cancelled;
    std::thread cancel;
    const int spin = static_cast<int>(random() % 2000);
    const auto race = [&] {
      cancel = std::thread([&] {
        for (std::atomic<int> k = 0; k < spin; ++k) {
        }
        cancelled = Cancel(job.name());
      });
    };
    bool placed = true;
    if (phase == 0) {  // while it is queued or just being claimed
      race();
      cancel.join();
      placed = !GetJob(job.name()).has_end_time();
    }
    v1::Assign assign;
    if (placed) assign = worker.TakeAssign();
    if (phase == 1 || phase == 2) race();
    if (placed) {
      ASSERT_EQ(assign.job(), job.name());
      if (phase == 3) race();  // in the same moment as the result
      if (phase == 2 || phase == 3) {
        completed = true;
        EXPECT_TRUE(worker.Tell(Ended(assign, 0, MakeResult(v1::OUTCOME_OK))));
      } else {
        EXPECT_TRUE(worker.TakeCancel(assign.assignment()));
      }
      EXPECT_TRUE(worker.Tell(Over(assign)));
    }
    if (cancel.joinable()) cancel.join();
    const v1::Job end = GetJob(job.name());
    const v1::Trial trial = GetTrial(job.name(), 0);
    ++states[end.state()];
    ASSERT_TRUE(end.has_end_time()) << "phase " << phase;
    if (completed) {
      EXPECT_EQ(end.state(), v1::JOB_STATE_SUCCEEDED) << "a result was lost";
      EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_OK);
      EXPECT_TRUE(cancelled.ok() || service::ErrorReason(cancelled) == "JOB_ENDED") << cancelled;
    } else {
      EXPECT_TRUE(cancelled.ok()) << cancelled;
      EXPECT_EQ(end.state(), v1::JOB_STATE_CANCELLED);
      EXPECT_EQ(trial.result().outcome(), v1::OUTCOME_CANCELLED);
    }
    EXPECT_EQ(service::ErrorReason(Cancel(job.name())), "JOB_ENDED");
    EXPECT_EQ(GetJob(job.name()).state(), end.state());
  }
  EXPECT_EQ(states[v1::JOB_STATE_SUCCEEDED] + states[v1::JOB_STATE_CANCELLED], 200);
}

// Case V3 over the wire: what is larger than a message goes in pieces, both ways.
TEST_F(ServiceTest, LargeLogsAndSamplesArriveAndComeBackWhole) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  const v1::Job job = Submit("1 tiled");
  const v1::Assign assign = worker.TakeAssign();
  constexpr int kChunks = 20;
  constexpr int kOfAChunk = 10'000;
  constexpr int kRanks = 8;
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    v1::SampleChunk& samples = *event.mutable_samples()->mutable_chunk();
    samples.set_first(chunk * kOfAChunk);
    samples.set_ranks(kRanks);
    for (int i = 0; i < kOfAChunk; ++i) {
      samples.add_marks(0);
      for (int rank = 0; rank < kRanks; ++rank) {
        samples.add_seconds(chunk * kOfAChunk + i + 0.125 * rank);
      }
    }
    EXPECT_TRUE(worker.Tell(event));
    event.mutable_log()->set_text(std::string(1 << 20, static_cast<char>('a' + chunk)));
    EXPECT_TRUE(worker.Tell(event));
  }
  EXPECT_TRUE(worker.Tell(Ended(assign, 0, MakeResult(v1::OUTCOME_OK))));
  EXPECT_TRUE(worker.Tell(Over(assign)));
  EXPECT_EQ(GetJob(job.name()).state(), v1::JOB_STATE_SUCCEEDED);

  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
  v1::ExportResultsRequest request;
  request.set_samples(true);
  const auto reader = results_->ExportResults(&context, request);
  int64_t iterations = 0;
  int trials = 0;
  for (v1::ExportedResult exported; reader->Read(&exported);) {
    EXPECT_LT(exported.ByteSizeLong(), 3U << 20);
    trials += exported.has_trial() ? 1 : 0;
    for (int i = 0; i < exported.samples().seconds_size(); ++i) {
      const int64_t iteration = iterations + i / kRanks;
      ASSERT_EQ(exported.samples().seconds(i),
                static_cast<double>(iteration) + 0.125 * (i % kRanks));
    }
    iterations += exported.samples().marks_size();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(trials, 1);
  EXPECT_EQ(iterations, kChunks * kOfAChunk);

  grpc::ClientContext logs_context;
  logs_context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
  v1::GetTrialLogsRequest logs_request;
  logs_request.set_name(job.name() + "/trials/0");
  const auto logs = jobs_->GetTrialLogs(&logs_context, logs_request);
  std::string text;
  for (v1::LogChunk chunk; logs->Read(&chunk);) text += chunk.text();
  EXPECT_TRUE(logs->Finish().ok());
  EXPECT_EQ(text.front(), 'a');
  EXPECT_EQ(text.back(), 'a' + kChunks - 1);
  EXPECT_THAT(text.substr(text.find('\n'), 80), HasSubstr("bytes of this log were left out here"));
}

// Case V6, shortened: a reader that stops reading while samples are written.
TEST_F(ServiceTest, SlowReaderOfAnExportDoesNotMakeTheLogOfWritesGrow) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  const v1::Job job = Submit("1 tiled ref");
  const v1::Assign assign = worker.TakeAssign();
  v1::AssignmentEvent event;
  event.set_assignment(assign.assignment());
  const auto write_samples = [&](int trial, int chunks) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      event.mutable_samples()->set_trial(trial);
      v1::SampleChunk& samples = *event.mutable_samples()->mutable_chunk();
      samples.set_first(chunk * 100'000);
      samples.mutable_seconds()->Resize(100'000, 1e-3);
      samples.mutable_marks()->Resize(100'000, 0);
      ASSERT_TRUE(worker.Tell(event));
    }
  };
  write_samples(0, 40);
  ASSERT_TRUE(worker.Tell(Ended(assign, 0, MakeResult(v1::OUTCOME_OK))));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
  v1::ExportResultsRequest request;
  request.set_samples(true);
  const auto reader = results_->ExportResults(&context, request);
  v1::ExportedResult exported;
  ASSERT_TRUE(reader->Read(&exported));  // and then no more for a while
  write_samples(1, 80);
  EXPECT_LT(std::filesystem::file_size(folder_ + "/lcab.db-wal"), 24U << 20);
  int64_t iterations = 0;
  while (reader->Read(&exported)) iterations += exported.samples().marks_size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(iterations, 4'000'000);
}

// Case V4 over the wire, with a clock of the test's own.
TEST_F(ServiceTest, WorkerThatWasCutOffGoesOnAndItsResultCounts) {
  StartByHand(/*max_attempts=*/1);
  const v1::Job job = Submit("1 tiled");
  v1::Assign assign;
  {
    TestWorker worker(address(), {});
    worker.TakeWelcome();
    worker.Beat();
    for (int i = 0; i < 1000 && GetJob(job.name()).state() == v1::JOB_STATE_QUEUED; ++i) {
      coordinator_->Tick();
    }
    assign = worker.TakeAssign();
    // Busy for nearly its whole limit, but heard of.
    for (int i = 0; i < 5; ++i) {
      clock_.Advance(absl::Seconds(10));
      v1::AssignmentEvent progress;
      progress.set_assignment(assign.assignment());
      progress.mutable_progress()->set_stage("sample");
      ASSERT_TRUE(worker.Tell(progress));
      coordinator_->Tick();
    }
    EXPECT_EQ(GetJob(job.name()).state(), v1::JOB_STATE_RUNNING);
  }
  for (int i = 0; i < 6; ++i) {  // a minute without it
    clock_.Advance(absl::Seconds(10));
    coordinator_->Tick();
  }
  EXPECT_EQ(GetTrial(job.name(), 0).result().outcome(), v1::OUTCOME_LOST);
  TestWorker worker(address(), {.running = {assign.assignment()}});
  EXPECT_THAT(worker.TakeWelcome().abandon(), SizeIs(0));
  worker.Beat({assign.assignment()});
  v1::AssignmentEvent ended = Ended(assign, 0, MakeResult(v1::OUTCOME_OK));
  ended.set_incarnation("1");
  ended.set_sequence(100);
  ASSERT_TRUE(worker.TellAgain(ended));
  EXPECT_EQ(GetJob(job.name()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(GetTrial(job.name(), 0).attempts(), SizeIs(1));
}

}  // namespace
}  // namespace lcab::coordinator
