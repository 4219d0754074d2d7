// A worker: what it has is offered to a coordinator, what it is assigned runs in runner processes.
// lcab-worker is one in a process of its own; lcab-client embeds one for `run`.
//
//   auto worker = Worker::Start({.coordinator = "127.0.0.1:7750", .cpu_slots = 2,
//                                .state_path = path, .runner = "lcab-runner"}).value();
//   ...
//   worker->Drain();
//   worker->WaitUntilIdle(absl::Now() + absl::Minutes(10));

#ifndef LCAB_WORKER_WORKER_H_
#define LCAB_WORKER_WORKER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lcab/v1/fleet.pb.h"
#include "prometheus/registry.h"
#include "worker/assignment.h"
#include "worker/device_leases.h"
#include "worker/inventory.h"
#include "worker/metrics.h"
#include "worker/outbox.h"
#include "worker/runner_process.h"
#include "worker/session.h"
#include "worker/state_folder.h"

namespace lcab::worker {

struct WorkerOptions {
  std::string coordinator;  // "host:port" or "unix:/path"
  std::string name;         // empty: who the state folder says, else the host's name
  int64_t cpu_slots = 2;
  bool gpus = true;  // offers those that there are
  std::string state_path;
  std::string runner;              // path of lcab-runner
  std::string data_interface;      // interface or address for data of gangs over several workers
  int64_t memory_limit_bytes = 0;  // of one runner; 0: none
  // Hooks by name, for tests: runners are told of them only when this is not empty.
  std::map<std::string, std::string> test_hooks;
  bool allow_test_hooks = false;
};

class Worker : private SessionHandler, private AssignmentListener {
 public:
  // Starts connecting at once; that there is a coordinator is not waited for. Fails when the state
  // folder cannot be used, the runner is not there, or an option makes no sense.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // Ends what runs, delivers what can be delivered within seconds, and leaves no process.
  ~Worker() override;

  const std::string& id() const { return state_.worker_id(); }
  const std::vector<v1::Device>& devices() const { return inventory_.devices; }
  bool connected() const { return session_->connected(); }
  const std::string& state_path() const { return state_.path(); }

  // Takes nothing new from now on. What runs goes on.
  void Drain();
  // Whether nothing runs and everything is acknowledged, waiting for it until the deadline.
  bool WaitUntilIdle(absl::Time deadline);
  // Whether nothing runs, waiting for it until the deadline. What is unacknowledged does not count.
  bool WaitUntilFinished(absl::Time deadline);
  // Waits until everything is acknowledged. Gives up after seconds without a coordinator, when one
  // that is there acknowledges nothing for longer, and when `give_up`, asked now and then, says so.
  // Returns how many events are left for the next start, which sends them.
  int64_t Deliver(const std::function<bool()>& give_up);
  // Ends what runs, within its grace.
  void AbortAll(const std::string& reason);

  std::shared_ptr<prometheus::Registry> metrics() const { return metrics_.registry(); }
  // Unavailable when the thread that looks after assignments has stood still. Takes no lock.
  absl::Status Health() const;

 private:
  Worker(const WorkerOptions& options, StateFolder state, Inventory inventory,
         const v1::Environment& environment, std::unique_ptr<Outbox> outbox,
         std::string incarnation);

  v1::Hello MakeHello() override;
  v1::Heartbeat MakeHeartbeat() override;
  void OnWelcome(const v1::Welcome& welcome) override;
  void OnDisconnect() override;
  void OnMessage(const v1::ToWorker& message) override;
  void OnEvent(v1::AssignmentEvent event) override;
  void OnRelay(v1::FromWorker message) override;
  void OnRunnerDeath(const Verdict& verdict) override;

  void Take(const v1::Assign& assign);
  void Refuse(const v1::Assign& assign, std::string_view reason);
  // Removes assignments that have finished; keeps metrics and the pulse.
  void Keep();

  const StateFolder state_;
  const Inventory inventory_;
  const std::string incarnation_;
  const AssignmentOptions assignment_options_;
  Metrics metrics_;
  std::unique_ptr<Outbox> outbox_;
  RunnerPool pool_;
  DeviceLeases leases_;

  // Names of what runs here: for hello and heartbeats, apart from what assignments lock.
  std::mutex names_mutex_;
  std::set<std::string> names_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Assignment>> assignments_;
  bool stopping_ = false;
  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> pulse_;  // nanoseconds since 1970

  std::unique_ptr<Session> session_;
  std::thread keeper_;
};

// lcab-runner beside the running program.
std::string RunnerBesideThisProgram();

}  // namespace lcab::worker

#endif  // LCAB_WORKER_WORKER_H_
