// A coordinator on loopback for the tests of its services, with a clock of the test's own where a
// test wants one.

#ifndef LCAB_COORDINATOR_TEST_SERVER_H_
#define LCAB_COORDINATOR_TEST_SERVER_H_

#include <atomic>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/coordinator.h"
#include "coordinator/test_specs.h"
#include "coordinator/test_worker.h"
#include "fmt/format.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "lcab/v1/fleet.grpc.pb.h"
#include "lcab/v1/jobs.grpc.pb.h"
#include "lcab/v1/results.grpc.pb.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {

inline std::string Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// A suite's text of these tests: kernels of one cohort a line, behind its ranks: "1 tiled ref".
inline absl::StatusOr<Expansion> ExpandLines(const v1::SubmitJobRequest& request,
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

class TestClock {
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
  TestClock clock_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Results::Stub> results_;
  std::unique_ptr<v1::Fleet::Stub> fleet_;
  int64_t sequence_ = 0;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_TEST_SERVER_H_
