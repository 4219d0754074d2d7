// The coordinator's streams with workers over loopback, with workers that the tests speak for.

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/test_server.h"
#include "gmock/gmock.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

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

TEST_F(ServiceTest, HealthIsServedOverHttpAndOverGrpc) {
  Start({.metrics_listen = "127.0.0.1:0"});
  httplib::Client http("127.0.0.1", coordinator_->metrics_port());
  const auto health = http.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  const auto metrics = http.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_THAT(metrics->body, HasSubstr("lcab_store_wal_bytes"));
  // grpc.health.v1.Health/Check of the service "lcab.v1.Jobs", as bytes: Debian has no header of
  // it.
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTestPatience));
  grpc::CompletionQueue queue;
  const std::string name = "lcab.v1.Jobs";
  const std::string request = "\x0A" + std::string(1, static_cast<char>(name.size())) + name;
  const grpc::Slice slice(request);
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, this);
  void* tag = nullptr;
  bool done = false;
  ASSERT_TRUE(queue.Next(&tag, &done));
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice bytes;
  ASSERT_TRUE(answer.DumpToSingleSlice(&bytes).ok());
  constexpr char kServing[] = "\x08\x01";
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size()), kServing);
  queue.Shutdown();
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
}

TEST_F(ServiceTest, APortThatIsTakenLeavesNoDatabase) {
  Start({.metrics_listen = "127.0.0.1:0"});
  const std::string metrics = fmt::format("127.0.0.1:{}", coordinator_->metrics_port());
  const std::string folder = folder_ + "/other";
  std::filesystem::create_directory(folder);
  for (CoordinatorOptions taken :
       {CoordinatorOptions{.listen = address()},
        CoordinatorOptions{.listen = "127.0.0.1:0", .metrics_listen = metrics}}) {
    taken.db = folder + "/lcab.db";
    EXPECT_EQ(Coordinator::Start(taken).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
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
