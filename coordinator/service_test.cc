// The coordinator's services over loopback, with workers that the tests speak for.

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/test_specs.h"
#include "coordinator/test_worker.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lcab/v1/jobs.grpc.pb.h"
#include "lcab/v1/results.grpc.pb.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// A suite's text of these tests: kernels of one cohort a line, behind its ranks: "1 tiled ref".
absl::StatusOr<Expansion> ExpandLines(const v1::SubmitJobRequest& request,
                                      const std::vector<v1::KernelInfo>& announced) {
  if (request.suite_text() == "announced") {
    std::string names;
    for (const v1::KernelInfo& kernel : announced) names += kernel.name() + " ";
    return absl::InvalidArgumentError(names);
  }
  Expansion expansion{.suite_name = "lines"};
  std::istringstream lines(request.suite_text());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int ranks = 0;
    if (!(words >> ranks) || ranks < 1) {
      return absl::InvalidArgumentError("suite:1:1: no ranks; write 1 tiled");
    }
    v1::CohortSpec& cohort = expansion.cohorts.emplace_back();
    cohort.set_ranks(ranks);
    cohort.set_ranks_per_device(1);
    for (std::string kernel; words >> kernel;) *cohort.add_trials() = MakeSpec(kernel, ranks);
  }
  return expansion;
}

class Clock {
 public:
  absl::Time Now() const { return absl::FromUnixMicros(micros_); }
  void Advance(absl::Duration duration) { micros_ += absl::ToInt64Microseconds(duration); }

 private:
  std::atomic<int64_t> micros_ = 1'000'000'000'000;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/service.{}", testing::TempDir(), info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ServiceTest() override {
    Stop();
    std::filesystem::remove_all(folder_);
  }

  void Start(CoordinatorOptions options = {}) {
    options.listen = "127.0.0.1:0";
    options.db = folder_ + "/lcab.db";
    options.expand = ExpandLines;
    auto coordinator = Coordinator::Start(options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    channel_ = MakeTestChannel(coordinator_->address());
    jobs_ = v1::Jobs::NewStub(channel_);
    results_ = v1::Results::NewStub(channel_);
    fleet_ = v1::Fleet::NewStub(channel_);
  }
  // With a clock of the test's own, and rounds of scheduling only when it asks for them.
  void StartByHand(int max_attempts = 3) {
    Start({.max_attempts = max_attempts,
           .now = [this] { return clock_.Now(); },
           .manual_ticks = true});
  }
  void Stop() {
    jobs_.reset();
    results_.reset();
    fleet_.reset();
    channel_.reset();
    coordinator_.reset();
  }
  std::string address() const { return coordinator_->address(); }

  // One unary call.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
    return service::FromGrpc((stub.*method)(&context, request, &response));
  }

  v1::Job Submit(const std::string& suite, const std::string& request_id = "") {
    v1::SubmitJobRequest request;
    request.set_suite_text(suite);
    request.set_request_id(request_id);
    request.set_submitter("ann");
    v1::Job job;
    const absl::Status status = Call(*jobs_, &v1::Jobs::Stub::SubmitJob, request, job);
    EXPECT_TRUE(status.ok()) << status;
    return job;
  }
  v1::Job GetJob(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    const absl::Status status = Call(*jobs_, &v1::Jobs::Stub::GetJob, request, job);
    EXPECT_TRUE(status.ok()) << status;
    return job;
  }
  v1::Trial GetTrial(const std::string& job, int number) {
    v1::GetTrialRequest request;
    request.set_name(fmt::format("{}/trials/{}", job, number));
    v1::Trial trial;
    const absl::Status status = Call(*jobs_, &v1::Jobs::Stub::GetTrial, request, trial);
    EXPECT_TRUE(status.ok()) << status;
    return trial;
  }
  absl::Status Cancel(const std::string& name) {
    v1::CancelJobRequest request;
    request.set_name(name);
    v1::Job job;
    return Call(*jobs_, &v1::Jobs::Stub::CancelJob, request, job);
  }
  // Follows the job to its end.
  std::vector<v1::JobEvent> Watch(const std::string& name, int64_t after = 0) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
    v1::WatchJobRequest request;
    request.set_name(name);
    request.set_after_sequence(after);
    const auto reader = jobs_->WatchJob(&context, request);
    std::vector<v1::JobEvent> events;
    for (v1::JobEvent event; reader->Read(&event);) events.push_back(event);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return events;
  }

  static v1::AssignmentEvent Ended(const v1::Assign& assign, int trial,
                                   const v1::TrialResult& result) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    event.mutable_trial_ended()->set_trial(trial);
    for (int i = 0; i < assign.trials_size(); ++i) {
      if (assign.trials(i) == trial) event.mutable_trial_ended()->set_attempt(assign.attempts(i));
    }
    *event.mutable_trial_ended()->mutable_result() = result;
    return event;
  }
  static v1::AssignmentEvent Over(const v1::Assign& assign) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    event.mutable_ended();
    return event;
  }

  std::string folder_;
  Clock clock_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Results::Stub> results_;
  std::unique_ptr<v1::Fleet::Stub> fleet_;
  int64_t sequence_ = 0;
};

TEST_F(ServiceTest, SubmittedJobIsPlacedRunAndWatchedToItsEnd) {
  Start();
  TestWorker worker(address(), {});
  EXPECT_EQ(worker.TakeWelcome().heartbeat_timeout().seconds(), 30);
  worker.Beat();
  const v1::Job job = Submit("1 tiled ref");
  EXPECT_EQ(job.counts().total(), 2);
  std::thread run([&] {
    const v1::Assign assign = worker.TakeAssign();
    for (const int trial : assign.trials()) {
      EXPECT_TRUE(worker.Tell(Ended(assign, trial, MakeResult(v1::OUTCOME_OK))));
    }
    EXPECT_TRUE(worker.Tell(Over(assign)));
  });
  const std::vector<v1::JobEvent> events = Watch(job.name());
  run.join();
  EXPECT_THAT(events, SizeIs(6));
  EXPECT_EQ(events.back().job().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Watch(job.name(), 4).front().sequence(), 5);
  EXPECT_EQ(GetJob(job.name()).suite_text(), "1 tiled ref");
}

TEST_F(ServiceTest, StreamThatDoesNotBeginWithAProperHelloIsRefused) {
  Start();
  {
    TestWorker worker(address(), {.protocol = 2});
    const absl::Status status = worker.End();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(service::ErrorReason(status), "PROTOCOL_MISMATCH");
  }
  {
    TestWorker worker(address(), {.id = "a/b"});
    EXPECT_EQ(worker.End().code(), absl::StatusCode::kInvalidArgument);
  }
  const auto stub = v1::WorkerStream::NewStub(channel_);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
  const auto stream = stub->Connect(&context);
  v1::FromWorker message;
  message.mutable_heartbeat();
  stream->Write(message);
  v1::ToWorker answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, TwoDaemonsCannotBeOneWorkerButAReconnectReplacesItsOldStream) {
  StartByHand();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  TestWorker other(address(), {.incarnation = "2"});
  EXPECT_EQ(service::ErrorReason(other.End()), "WORKER_CONNECTED");
  TestWorker again(address(), {});
  again.TakeWelcome();
  EXPECT_EQ(worker.End().code(), absl::StatusCode::kCancelled);
}

TEST_F(ServiceTest, RanksOnDifferentWorkersMeetThroughTheCoordinator) {
  StartByHand();
  TestWorker w1(address(), {.id = "w1"});
  TestWorker w2(address(), {.id = "w2"});
  w1.TakeWelcome();
  w2.TakeWelcome();
  w1.Beat();
  w2.Beat();
  const v1::Job job = Submit("2 tiled");
  v1::Assign first;
  for (int i = 0; i < 100 && GetJob(job.name()).state() == v1::JOB_STATE_QUEUED; ++i) {
    coordinator_->Tick();
  }
  first = w1.TakeAssign();
  w2.TakeAssign();
  w2.Get(first.assignment(), 1, 17, "address/0", 60);
  w1.Put(first.assignment(), "address/0", "10.0.0.1:4000");
  EXPECT_EQ(w2.TakeValue(17).value(), "10.0.0.1:4000");
  w2.Get(first.assignment(), 1, 18, "never", 1);
  // A message that is answered in order shows that the get has arrived.
  w2.Get(first.assignment(), 1, 19, "address/0", 1);
  w2.TakeValue(19);
  clock_.Advance(absl::Seconds(2));
  coordinator_->Tick();
  EXPECT_EQ(w2.TakeValue(18).code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  // A rank of w2 dies: whoever waits is woken with the reason.
  w1.Get(first.assignment(), 0, 20, "vote/1", 600);
  w1.Get(first.assignment(), 0, 21, "address/0", 1);
  w1.TakeValue(21);
  ASSERT_TRUE(w2.Tell(
      Ended(first, 0, MakeResult(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "rank 1 died", 1))));
  const v1::RendezvousValue woken = w1.TakeValue(20);
  EXPECT_EQ(woken.code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(woken.error(), "rank 1 died");
  EXPECT_TRUE(w1.TakeCancel(first.assignment()));
}

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
      ASSERT_EQ(exported.samples().seconds(i),
                static_cast<double>(iterations) + i / kRanks + 0.125 * (i % kRanks));
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

TEST_F(ServiceTest, ListsArePagedAndForeignTokensRefused) {
  Start();
  for (int i = 0; i < 5; ++i) Submit("1 tiled tiled tiled");
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    v1::ListJobsResponse page;
    ASSERT_TRUE(Call(*jobs_, &v1::Jobs::Stub::ListJobs, request, page).ok());
    EXPECT_LE(page.jobs_size(), 2);
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("jobs/5", "jobs/4", "jobs/3", "jobs/2", "jobs/1"));

  v1::ListTrialsRequest trials;
  trials.set_parent("jobs/3");
  trials.set_page_size(2);
  v1::ListTrialsResponse page;
  ASSERT_TRUE(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).ok());
  EXPECT_THAT(page.trials(), SizeIs(2));
  const std::string token = page.next_page_token();
  trials.set_page_token(token);
  ASSERT_TRUE(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).ok());
  EXPECT_EQ(page.trials(0).name(), "jobs/3/trials/2");
  EXPECT_EQ(page.next_page_token(), "");
  trials.set_parent("jobs/2");
  for (const std::string& wrong : {token, std::string("x"), std::string("!!!")}) {
    trials.set_page_token(wrong);
    EXPECT_EQ(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).code(),
              absl::StatusCode::kInvalidArgument);
  }
  trials.set_page_token("");
  trials.set_page_size(-1);
  EXPECT_EQ(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, ResultsAreFilteredNewestJobFirst) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  for (int i = 0; i < 2; ++i) {
    const v1::Job job = Submit("1 tiled ref");
    const v1::Assign assign = worker.TakeAssign();
    for (const int trial : assign.trials()) {
      worker.Tell(
          Ended(assign, trial, MakeResult(trial == 0 ? v1::OUTCOME_OK : v1::OUTCOME_WRONG_RESULT)));
    }
    worker.Tell(Over(assign));
  }
  const auto query = [&](const v1::ResultFilter& filter) {
    v1::QueryResultsRequest request;
    *request.mutable_filter() = filter;
    request.set_page_size(1);
    std::vector<std::string> names;
    do {
      v1::QueryResultsResponse page;
      const absl::Status status = Call(*results_, &v1::Results::Stub::QueryResults, request, page);
      EXPECT_TRUE(status.ok()) << status;
      for (const v1::Trial& trial : page.trials()) names.push_back(trial.name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return names;
  };
  v1::ResultFilter filter;
  EXPECT_THAT(query(filter), ElementsAre("jobs/2/trials/0", "jobs/2/trials/1", "jobs/1/trials/0",
                                         "jobs/1/trials/1"));
  filter.set_kernel("ref");
  EXPECT_THAT(query(filter), ElementsAre("jobs/2/trials/1", "jobs/1/trials/1"));
  filter.set_job("jobs/1");
  EXPECT_THAT(query(filter), ElementsAre("jobs/1/trials/1"));
  filter.set_outcome(v1::OUTCOME_OK);
  EXPECT_THAT(query(filter), SizeIs(0));
}

TEST_F(ServiceTest, ErrorsNameWhatIsNotThere) {
  Start();
  v1::GetJobRequest request;
  v1::Job job;
  request.set_name("jobs/7");
  absl::Status status = Call(*jobs_, &v1::Jobs::Stub::GetJob, request, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(service::ErrorReason(status), "JOB_NOT_FOUND");
  request.set_name("trials/7");
  status = Call(*jobs_, &v1::Jobs::Stub::GetJob, request, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("jobs/7"));
  v1::GetTrialRequest trial_request;
  v1::Trial trial;
  trial_request.set_name("jobs/7/trials/0");
  EXPECT_EQ(service::ErrorReason(Call(*jobs_, &v1::Jobs::Stub::GetTrial, trial_request, trial)),
            "TRIAL_NOT_FOUND");
  v1::DrainWorkerRequest drain;
  v1::Worker worker;
  drain.set_name("workers/w9");
  EXPECT_EQ(service::ErrorReason(Call(*fleet_, &v1::Fleet::Stub::DrainWorker, drain, worker)),
            "WORKER_NOT_FOUND");
  v1::SubmitJobRequest submit;
  submit.set_suite_text("nonsense");
  EXPECT_THAT(Text(Call(*jobs_, &v1::Jobs::Stub::SubmitJob, submit, job)), HasSubstr("suite:1:1"));
  submit.set_suite_text(std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(Call(*jobs_, &v1::Jobs::Stub::SubmitJob, submit, job).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, SameRequestIdIsTheSameJobFromManyClientsAtOnce) {
  Start();
  std::vector<std::string> names(8);
  std::vector<std::thread> clients;
  for (std::string& name : names) {
    clients.emplace_back([&] { name = Submit("1 tiled", "r-1").name(); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(names, testing::Each(names.front()));
}

TEST_F(ServiceTest, DrainedWorkerIsShownAndGetsNothingNewUntilItIsNotDrained) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  v1::SubmitJobRequest catalogue;
  catalogue.set_suite_text("announced");
  v1::Job unused;
  EXPECT_THAT(Text(Call(*jobs_, &v1::Jobs::Stub::SubmitJob, catalogue, unused)),
              HasSubstr("ref tiled"));
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/w1");
  drain.set_drain(true);
  v1::Worker shown;
  ASSERT_TRUE(Call(*fleet_, &v1::Fleet::Stub::DrainWorker, drain, shown).ok());
  EXPECT_EQ(shown.state(), v1::WORKER_STATE_DRAINING);
  EXPECT_TRUE(worker.Take([](const v1::ToWorker& m) { return m.drain(); }).has_value());
  const v1::Job job = Submit("1 tiled");
  for (int i = 0; i < 1000 && GetJob(job.name()).waiting_reason().empty(); ++i)
    coordinator_->Tick();
  EXPECT_THAT(GetJob(job.name()).waiting_reason(), HasSubstr("draining workers (w1)"));
  drain.set_drain(false);
  ASSERT_TRUE(Call(*fleet_, &v1::Fleet::Stub::DrainWorker, drain, shown).ok());
  worker.TakeAssign();
  v1::ListWorkersResponse list;
  ASSERT_TRUE(Call(*fleet_, &v1::Fleet::Stub::ListWorkers, v1::ListWorkersRequest(), list).ok());
  ASSERT_EQ(list.workers_size(), 1);
  EXPECT_EQ(list.workers(0).state(), v1::WORKER_STATE_CONNECTED);
  EXPECT_THAT(list.workers(0).assignments(), SizeIs(1));
}

TEST_F(ServiceTest, ProgressReachesWatchersAndIsNotStored) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  const v1::Job job = Submit("1 tiled");
  const v1::Assign assign = worker.TakeAssign();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
  v1::WatchJobRequest request;
  request.set_name(job.name());
  const auto reader = jobs_->WatchJob(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  std::thread run([&] {
    // The watch may begin after the first of them; they are latest news, not history.
    v1::AssignmentEvent progress;
    progress.set_assignment(assign.assignment());
    progress.mutable_progress()->set_stage("sample");
    for (int i = 1; i <= 50; ++i) {
      progress.mutable_progress()->set_samples(i);
      worker.Tell(progress);
    }
    worker.Tell(Ended(assign, 0, MakeResult(v1::OUTCOME_OK)));
  });
  bool seen = false;
  do {
    if (!event.stage().empty()) {
      seen = true;
      EXPECT_EQ(event.stage(), "sample");
      EXPECT_EQ(event.sequence(), 2);
      EXPECT_EQ(event.trial(), job.name() + "/trials/0");
    }
  } while (reader->Read(&event));
  run.join();
  EXPECT_TRUE(seen);
  for (const v1::JobEvent& stored : Watch(job.name())) EXPECT_EQ(stored.stage(), "");
}

TEST_F(ServiceTest, StoppingCoordinatorEndsStreamsSoonAndSaysWhy) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  const v1::Job job = Submit("1 other");
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_name(job.name());
  const auto reader = jobs_->WatchJob(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  const absl::Time begin = absl::Now();
  coordinator_.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(worker.End().ok());
}

TEST_F(ServiceTest, OptionsThatMakeNoSenseAreRefused) {
  const auto refused = [&](CoordinatorOptions options) {
    options.db = folder_ + "/lcab.db";
    return Coordinator::Start(std::move(options)).status().code();
  };
  EXPECT_EQ(refused({.listen = "nowhere"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused({.listen = "127.0.0.1:0", .max_attempts = 0}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused({.listen = "127.0.0.1:0", .heartbeat_timeout = absl::ZeroDuration()}),
            absl::StatusCode::kInvalidArgument);
  Start();
  EXPECT_EQ(refused({.listen = "127.0.0.1:0"}), absl::StatusCode::kFailedPrecondition);
  CoordinatorOptions taken{.listen = address()};
  taken.db = folder_ + "/other.db";
  EXPECT_EQ(Coordinator::Start(taken).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ServiceTest, UnixSocketServesAndIsRemoved) {
  const std::string socket = folder_ + "/s";
  CoordinatorOptions options{.listen = "unix:" + socket};
  options.db = folder_ + "/lcab.db";
  options.expand = ExpandLines;
  auto coordinator = Coordinator::Start(options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  TestWorker worker((*coordinator)->address(), {});
  worker.TakeWelcome();
  EXPECT_TRUE(std::filesystem::exists(socket));
  coordinator->reset();
  EXPECT_FALSE(std::filesystem::exists(socket));
}

}  // namespace
}  // namespace lcab::coordinator
