// A coordinator's decisions without its network, for tests: a store, a clock that the test owns,
// and workers whose words the test speaks. Its process can be "killed" between any two changes.

#ifndef LCAB_COORDINATOR_TEST_WORLD_H_
#define LCAB_COORDINATOR_TEST_WORLD_H_

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/effects.h"
#include "coordinator/event_table.h"
#include "coordinator/job_table.h"
#include "coordinator/placing.h"
#include "coordinator/reports.h"
#include "coordinator/resource_names.h"
#include "coordinator/store.h"
#include "coordinator/submission.h"
#include "coordinator/trial_table.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {

class World {
 public:
  explicit World(int max_attempts = 3) : max_attempts_(max_attempts) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        fmt::format("{}/world.{}.{}", testing::TempDir(), info->test_suite_name(), info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Restart();
  }
  ~World() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  // The coordinator's process ends without a word and a new one starts: sessions and messages on
  // their way are gone, the store is what was committed.
  void Restart() {
    store_.reset();
    auto store = Store::Open(folder_ + "/lcab.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    connected_.clear();
    inbox_.clear();
    heard_.clear();
    started_ = now_;
  }

  void Advance(absl::Duration duration) { now_ += duration; }

  // --- people
  int64_t Submit(const Expansion& expansion, const std::string& submitter = "ann",
                 const std::string& request_id = "") {
    v1::SubmitJobRequest request;
    request.set_submitter(submitter);
    request.set_request_id(request_id);
    int64_t job = 0;
    const absl::Status status = Change([&](Step& step) {
      auto submitted = SubmitJob(step, request, expansion);
      if (submitted.ok()) job = *submitted;
      return submitted.status();
    });
    EXPECT_TRUE(status.ok()) << status;
    return job;
  }
  absl::Status Cancel(int64_t job) {
    return Change([&](Step& step) { return CancelJob(step, job); });
  }
  absl::Status Retry(int64_t job) {
    return Change([&](Step& step) { return RetryJob(step, job); });
  }

  // --- workers
  struct FakeWorker {
    std::string id;
    int devices = 1;
    std::set<std::string> kernels = {"tiled"};
    std::string incarnation = "1";
    int64_t sequence = 0;
  };
  FakeWorker& AddWorker(const std::string& id, int devices = 1,
                        std::set<std::string> kernels = {"tiled", "ref"}) {
    workers_[id] = {.id = id, .devices = devices, .kernels = std::move(kernels)};
    return workers_[id];
  }
  // Hello; returns what it is told to abandon.
  std::vector<std::string> Hello(FakeWorker& worker, const std::vector<std::string>& running = {}) {
    v1::Hello hello;
    hello.set_worker_id(worker.id);
    hello.set_incarnation(worker.incarnation);
    for (const std::string& name : running) hello.add_assignments(name);
    std::vector<std::string> abandon;
    EXPECT_TRUE(Change([&](Step& step) {
                  abandon = Greet(step, hello);
                  return absl::OkStatus();
                }).ok());
    inbox_[worker.id].clear();
    heard_[worker.id] = now_;
    return abandon;
  }
  // The first heartbeat.
  void Beat(FakeWorker& worker, const std::vector<std::string>& running = {}) {
    EXPECT_TRUE(Change([&](Step& step) {
                  Reconcile(step, worker.id, running);
                  return absl::OkStatus();
                }).ok());
    WorkerView view{.id = worker.id};
    for (int i = 0; i < worker.devices; ++i) {
      view.devices.push_back({.id = fmt::format("cpu:{}", i), .kind = "cpu", .model = "epyc"});
    }
    view.kernels["cpu"] = worker.kernels;
    connected_[worker.id] = view;
    heard_[worker.id] = now_;
  }
  void Connect(FakeWorker& worker, const std::vector<std::string>& running = {}) {
    Hello(worker, running);
    Beat(worker, running);
  }
  // The stream breaks; what it was sent and has not read is gone.
  void Disconnect(const std::string& worker) {
    connected_.erase(worker);
    inbox_.erase(worker);
  }
  void Hear(const std::string& worker) { heard_[worker] = now_; }

  // What the worker was sent since it was last asked.
  std::vector<v1::ToWorker> Inbox(const std::string& worker) {
    return std::exchange(inbox_[worker], {});
  }
  // The one assignment among them.
  v1::Assign TakeAssign(const std::string& worker) {
    std::vector<v1::Assign> assigns;
    for (const v1::ToWorker& message : Inbox(worker)) {
      if (message.has_assign()) assigns.push_back(message.assign());
    }
    EXPECT_EQ(assigns.size(), 1U) << "for " << worker;
    return assigns.empty() ? v1::Assign() : assigns.front();
  }
  bool WasCancelled(const std::string& worker, const std::string& assignment) {
    for (const v1::ToWorker& message : Inbox(worker)) {
      if (message.has_cancel() && message.cancel().assignment() == assignment) return true;
    }
    return false;
  }

  // Events; each returns why it was ignored, or nothing.
  std::string Tell(FakeWorker& worker, v1::AssignmentEvent event) {
    if (event.sequence() == 0) event.set_sequence(++worker.sequence);
    if (event.incarnation().empty()) event.set_incarnation(worker.incarnation);
    std::string ignored;
    EXPECT_TRUE(Change([&](Step& step) {
                  HandleEvent(step, worker.id, event, ignored);
                  return absl::OkStatus();
                }).ok());
    heard_[worker.id] = now_;
    return ignored;
  }
  static v1::AssignmentEvent Started(const v1::Assign& assign, int trial) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    event.mutable_started()->set_trial(trial);
    return event;
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
  static v1::AssignmentEvent Over(const v1::Assign& assign, const std::string& reason = "",
                                  v1::Fault fault = v1::FAULT_UNSPECIFIED) {
    v1::AssignmentEvent event;
    event.set_assignment(assign.assignment());
    event.mutable_ended()->set_reason(reason);
    event.mutable_ended()->set_fault(fault);
    return event;
  }

  // --- the coordinator
  ScheduleDecisions Decide() {
    ScheduleDecisions decisions;
    const absl::Status status = Change([&](Step& step) {
      std::vector<WorkerView> connected;
      for (const auto& [id, view] : connected_) connected.push_back(view);
      const ScheduleState state = LoadScheduleState(step.db, connected, heard_, started_);
      decisions = Schedule(state, now_, {.heartbeat_timeout = absl::Seconds(30)});
      Apply(step, decisions);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return decisions;
  }

  // --- what the store says
  v1::Job Job(int64_t job) {
    v1::Job loaded;
    Read([&](Connection& db) { loaded = LoadJob(db, job, true).value_or(v1::Job()); });
    return loaded;
  }
  v1::Trial Trial(int64_t job, int64_t number) {
    v1::Trial loaded;
    Read([&](Connection& db) {
      const auto trial = FindTrialNumber(db, job, number);
      if (trial.has_value()) loaded = LoadTrial(db, trial->id);
    });
    return loaded;
  }
  std::vector<v1::JobEvent> Events(int64_t job) {
    std::vector<v1::JobEvent> events;
    Read([&](Connection& db) { events = LoadEvents(db, job, 0, 10'000); });
    return events;
  }
  void Read(const std::function<void(Connection&)>& read) {
    const absl::Status status = store_->Read([&](Connection& db) {
      read(db);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  absl::Status Change(const std::function<absl::Status(Step&)>& change) {
    Effects effects;
    const absl::Status status = store_->Write([&](Connection& db) {
      effects = {};
      Step step{db, now_, max_attempts_, absl::Seconds(5), effects};
      return change(step);
    });
    if (status.ok()) Deliver(effects);
    return status;
  }

  // What must hold at any moment.
  void CheckInvariants() {
    Read([](Connection& db) {
      EXPECT_EQ(
          db.QueryInt(
              "SELECT COUNT(*) FROM jobs WHERE pending + running + ok + wrong_result + unsupported "
              "+ out_of_memory + timed_out + crashed + cancelled + lost <> total OR pending <> "
              "(SELECT COUNT(*) FROM trials WHERE job_id = jobs.id AND trials.state = 1) OR "
              "running "
              "<> (SELECT COUNT(*) FROM trials WHERE job_id = jobs.id AND trials.state = 2) OR ok "
              "<> (SELECT COUNT(*) FROM trials WHERE job_id = jobs.id AND outcome = 1)"),
          0)
          << "counts of a job are wrong";
      EXPECT_EQ(
          db.QueryInt("SELECT COUNT(*) FROM trials WHERE state = 2 AND 1 <> (SELECT COUNT(*) FROM "
                      "attempts WHERE trial_id = trials.id AND attempts.state IN (1, 2))"),
          0)
          << "a running trial does not have exactly one open attempt";
      EXPECT_EQ(
          db.QueryInt("SELECT COUNT(*) FROM attempts JOIN trials ON trials.id = trial_id WHERE "
                      "attempts.state IN (1, 2) AND trials.state <> 2"),
          0)
          << "an attempt is open although its trial does not run";
      EXPECT_EQ(
          db.QueryInt("SELECT COUNT(*) FROM attempts JOIN assignments ON assignments.id = "
                      "assignment_id WHERE attempts.state IN (1, 2) AND assignments.state NOT IN "
                      "(1, 2)"),
          0)
          << "an attempt is open although its assignment is over";
      EXPECT_EQ(
          db.QueryInt("SELECT COUNT(*) FROM trials WHERE (state IN (3, 4, 5)) <> EXISTS (SELECT 1 "
                      "FROM results WHERE trial_id = trials.id)"),
          0)
          << "a trial has ended without a result, or has one before it ended";
      EXPECT_EQ(db.QueryInt(
                    "SELECT COUNT(*) FROM jobs WHERE (state IN (3, 4, 5)) <> (pending + running = "
                    "0)"),
                0)
          << "a job and its trials do not agree on whether it has ended";
      EXPECT_EQ(
          db.QueryInt("SELECT COUNT(*) FROM (SELECT ranks.worker, device FROM shares JOIN ranks ON "
                      "ranks.assignment_id = shares.assignment_id AND ranks.worker = shares.worker "
                      "WHERE shares.state = 1 GROUP BY ranks.worker, device HAVING COUNT(*) > 1)"),
          0)
          << "a device runs two ranks";
      EXPECT_EQ(db.QueryInt("SELECT COUNT(*) FROM trials WHERE counted < 0"), 0);
    });
  }

  Store& store() { return *store_; }
  absl::Time now() const { return now_; }
  std::map<std::string, FakeWorker>& workers() { return workers_; }
  bool IsConnected(const std::string& worker) const { return connected_.count(worker) > 0; }
  const std::vector<TrialEnded>& trials_ended() const { return trials_ended_; }

 private:
  void Deliver(Effects& effects) {
    for (auto& action : effects.actions) {
      if (auto* send = std::get_if<SendToWorker>(&action)) {
        // As on a stream: to one that is not connected nothing is delivered.
        if (connected_.count(send->worker) > 0) inbox_[send->worker].push_back(send->message);
      } else if (auto* ended = std::get_if<TrialEnded>(&action)) {
        trials_ended_.push_back(*ended);
      }
    }
  }

  const int max_attempts_;
  std::string folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  absl::Time started_ = now_;
  std::unique_ptr<Store> store_;
  std::map<std::string, FakeWorker> workers_;
  std::map<std::string, WorkerView> connected_;
  std::map<std::string, absl::Time> heard_;
  std::map<std::string, std::vector<v1::ToWorker>> inbox_;
  std::vector<TrialEnded> trials_ended_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_TEST_WORLD_H_
