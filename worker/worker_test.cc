// A whole worker against a coordinator that the test plays, with runners that compute nothing.

#include "worker/worker.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "proto/proto_time.h"
#include "worker/testing/fake_coordinator.h"

namespace lcab::worker {
namespace {

using Received = std::vector<v1::FromWorker>;

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = fmt::format("{}/worker_test_{}", testing::TempDir(), getpid());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    options_ = {.coordinator = "unix:" + folder + "/coordinator.sock",
                .name = "w1",
                .cpu_slots = 2,
                .state_path = folder + "/state",
                .runner = std::string(std::getenv("LCAB_BIN_DIR")) + "/lcab-fake-runner"};
    coordinator_ = std::make_unique<FakeCoordinator>(options_.coordinator);
  }

  void StartWorker() {
    auto worker = Worker::Start(options_);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    ASSERT_TRUE(coordinator_->WaitFor(
        [](const Received& all) { return !all.empty() && all.back().has_heartbeat(); }));
  }

  static v1::ToWorker Assign(const std::string& name, const std::vector<std::string>& kernels) {
    v1::ToWorker message;
    v1::Assign& assign = *message.mutable_assign();
    assign.set_assignment(name);
    assign.mutable_cohort()->set_ranks(2);
    assign.mutable_cohort()->set_ranks_per_device(1);
    for (const std::string& kernel : kernels) {
      v1::TrialSpec& spec = *assign.mutable_cohort()->add_trials();
      spec.mutable_kernel()->set_name(kernel);
      *spec.mutable_measure()->mutable_timeout() = ToProto(absl::Seconds(60));
      assign.add_trials(assign.trials_size());
      assign.add_attempts(1);
    }
    for (int rank = 0; rank < 2; ++rank) {
      assign.add_placements()->set_rank(rank);
      assign.mutable_placements(rank)->set_device(fmt::format("cpu:{}", rank));
    }
    *assign.mutable_grace() = ToProto(absl::Milliseconds(300));
    return message;
  }

  static bool HasEnded(const Received& all, const std::string& assignment) {
    for (const v1::FromWorker& message : all) {
      if (message.event().has_ended() && message.event().assignment() == assignment) return true;
    }
    return false;
  }
  bool WaitForEnd(const std::string& assignment) {
    return coordinator_->WaitFor([&](const Received& all) { return HasEnded(all, assignment); });
  }
  bool WaitForStart(const std::string& assignment) {
    return coordinator_->WaitFor([&](const Received& all) {
      for (const v1::FromWorker& message : all) {
        if (message.event().has_started() && message.event().assignment() == assignment) {
          return true;
        }
      }
      return false;
    });
  }
  // Distinct events with a result, by (incarnation, sequence).
  static int Results(const Received& all) {
    std::set<std::pair<std::string, int64_t>> seen;
    for (const v1::FromWorker& message : all) {
      if (!message.event().has_trial_ended()) continue;
      seen.emplace(message.event().incarnation(), message.event().sequence());
    }
    return static_cast<int>(seen.size());
  }

  WorkerOptions options_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(WorkerTest, HelloTellsDevicesKernelsAndWhoItIs) {
  StartWorker();
  const v1::Hello hello = coordinator_->received()[0].hello();
  EXPECT_EQ(hello.worker_id(), "w1");
  EXPECT_EQ(hello.incarnation().size(), 16u);
  ASSERT_EQ(hello.devices_size(), 2);
  EXPECT_EQ(hello.devices(1).id(), "cpu:1");
  EXPECT_GE(hello.devices(0).threads(), 1);
  EXPECT_GT(hello.kernels_size(), 0);
  EXPECT_NE(hello.environment().cpu_model(), "");
  EXPECT_TRUE(worker_->Health().ok());
}

TEST_F(WorkerTest, WhatIsAssignedRunsAndIsReportedOnce) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"ok", "ok"}));
  coordinator_->Send(Assign("assignments/1", {"ok", "ok"}));  // twice: once is run
  ASSERT_TRUE(WaitForEnd("assignments/1"));
  EXPECT_EQ(Results(coordinator_->received()), 2);
  EXPECT_TRUE(worker_->WaitUntilIdle(absl::Now() + absl::Seconds(20)));
}

TEST_F(WorkerTest, AnAssignmentGoesOnWhileTheCoordinatorIsAway) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"ok", "print", "ok"}));
  ASSERT_TRUE(WaitForStart("assignments/1"));
  coordinator_->Stop();
  coordinator_->Listen();
  ASSERT_TRUE(WaitForEnd("assignments/1"));
  EXPECT_EQ(Results(coordinator_->received()), 3);
}

TEST_F(WorkerTest, ACancelEndsTheAssignmentAndTheNextOneRuns) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"deaf"}));
  ASSERT_TRUE(WaitForStart("assignments/1"));
  v1::ToWorker cancel;
  cancel.mutable_cancel()->set_assignment("assignments/1");
  coordinator_->Send(cancel);
  coordinator_->Send(Assign("assignments/2", {"ok"}));  // waits for the devices
  ASSERT_TRUE(WaitForEnd("assignments/2"));
  EXPECT_TRUE(HasEnded(coordinator_->received(), "assignments/1"));
  EXPECT_EQ(Results(coordinator_->received()), 1);
}

TEST_F(WorkerTest, WhatTheCoordinatorNoLongerWantsIsStopped) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"hang"}));
  ASSERT_TRUE(WaitForStart("assignments/1"));
  coordinator_->Stop();
  coordinator_->SetAbandoned({"assignments/1"});
  coordinator_->Listen();
  EXPECT_TRUE(WaitForEnd("assignments/1"));
}

TEST_F(WorkerTest, HelloNamesWhatStillRuns) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"hang"}));
  ASSERT_TRUE(WaitForStart("assignments/1"));
  coordinator_->Stop();
  coordinator_->Forget();
  coordinator_->Listen();
  ASSERT_TRUE(coordinator_->WaitFor([](const Received& all) { return !all.empty(); }));
  const v1::Hello hello = coordinator_->received()[0].hello();
  ASSERT_EQ(hello.assignments_size(), 1);
  EXPECT_EQ(hello.assignments(0), "assignments/1");
}

TEST_F(WorkerTest, ResultsThatWereNotAcknowledgedAreDeliveredByTheNextStart) {
  coordinator_->SetAcknowledging(false);
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"ok", "ok"}));
  ASSERT_TRUE(WaitForEnd("assignments/1"));
  coordinator_->Stop();
  worker_.reset();
  coordinator_->Forget();
  coordinator_->SetAcknowledging(true);
  coordinator_->Listen();
  StartWorker();
  EXPECT_TRUE(HasEnded(coordinator_->received(), "assignments/1"));
  EXPECT_EQ(Results(coordinator_->received()), 2);
  EXPECT_TRUE(worker_->WaitUntilIdle(absl::Now() + absl::Seconds(20)));
}

TEST_F(WorkerTest, ADrainedWorkerFinishesWhatRunsAndRefusesWhatIsNew) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"print", "ok"}));
  ASSERT_TRUE(WaitForStart("assignments/1"));
  worker_->Drain();
  ASSERT_TRUE(coordinator_->WaitFor(
      [](const Received& all) { return !all.empty() && all.back().heartbeat().draining(); }));
  coordinator_->Send(Assign("assignments/2", {"ok"}));
  ASSERT_TRUE(WaitForEnd("assignments/1"));
  ASSERT_TRUE(WaitForEnd("assignments/2"));
  EXPECT_EQ(Results(coordinator_->received()), 2);
}

TEST_F(WorkerTest, WithoutACoordinatorDeliveryIsGivenUpAndSaysHowManyEventsAreLeft) {
  coordinator_->SetAcknowledging(false);
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"ok", "ok"}));
  ASSERT_TRUE(WaitForEnd("assignments/1"));
  ASSERT_TRUE(worker_->WaitUntilFinished(absl::Now() + absl::Seconds(20)));
  // Two results and the end; that it is told to give up ends the wait at once.
  EXPECT_GE(worker_->Deliver([] { return true; }), 3);
  coordinator_->Stop();
  EXPECT_GE(worker_->Deliver([] { return false; }), 3);
  coordinator_->SetAcknowledging(true);
  coordinator_->Listen();
  EXPECT_EQ(
      worker_->Deliver([until = absl::Now() + absl::Seconds(20)] { return absl::Now() >= until; }),
      0);
}

TEST_F(WorkerTest, ItsEndIsReportedAndLeavesNoProcess) {
  StartWorker();
  coordinator_->Send(Assign("assignments/1", {"deaf"}));
  ASSERT_TRUE(WaitForStart("assignments/1"));
  worker_.reset();
  EXPECT_TRUE(HasEnded(coordinator_->received(), "assignments/1"));
}

TEST_F(WorkerTest, WhatCannotWorkIsRefusedBeforeItStarts) {
  WorkerOptions no_runner = options_;
  no_runner.runner = "/no/such/runner";
  const auto started = Worker::Start(no_runner);
  EXPECT_EQ(started.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(started.status().message().find("--runner"), std::string::npos);
  WorkerOptions no_slots = options_;
  no_slots.cpu_slots = 0;
  EXPECT_EQ(Worker::Start(no_slots).status().code(), absl::StatusCode::kInvalidArgument);
  WorkerOptions no_state = options_;
  no_state.state_path = "/proc/no/such";
  EXPECT_EQ(Worker::Start(no_state).status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace lcab::worker
