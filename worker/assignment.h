// One assignment on this worker: the ranks of a cohort that run here, each in a runner process. Its
// thread starts them, passes on what they say, keeps their limits, and judges their ends. It ends
// with an Ended event, sent when no runner of it is at work any more.

#ifndef LCAB_WORKER_ASSIGNMENT_H_
#define LCAB_WORKER_ASSIGNMENT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/trial.pb.h"
#include "service/rendezvous_table.h"
#include "worker/assignment_rendezvous.h"
#include "worker/death.h"
#include "worker/device_leases.h"
#include "worker/file_descriptor.h"
#include "worker/rank_output.h"
#include "worker/rank_state.h"
#include "worker/runner_process.h"
#include "worker/trial_ledger.h"

namespace lcab::worker {

struct AssignmentOptions {
  std::string worker;  // workers/{id}
  std::vector<DeviceSlot> slots;
  v1::Environment environment;
  std::string data_interface;  // for gangs over several workers
  std::map<std::string, std::string> test_hooks;
  // How long an account of a lost peer waits for the peer's own.
  absl::Duration hold = absl::Seconds(2);
  // How long a rank may be at no trial: being set up, or between two.
  absl::Duration idle_limit = absl::Minutes(2);
  // The same after it has reported a trial that crashed or hung.
  absl::Duration fault_idle_limit = absl::Seconds(5);
  // For how long a trial's limit stands still while its ranks cannot meet: the coordinator is away.
  absl::Duration absence_limit = absl::Minutes(2);
  // Of keys and values that its ranks may leave for each other.
  int64_t rendezvous_bytes = service::RendezvousTable::kMaxBytes;
  // How long devices of an earlier assignment are waited for.
  absl::Duration lease_timeout = absl::Seconds(30);
};

// What an assignment tells its worker, from its own thread.
class AssignmentListener {
 public:
  virtual ~AssignmentListener() = default;
  virtual void OnEvent(v1::AssignmentEvent event) = 0;
  // Puts and gets for the coordinator.
  virtual void OnRelay(v1::FromWorker message) = 0;
  virtual void OnRunnerDeath(const Verdict& verdict) = 0;
};

class Assignment {
 public:
  // Starts at once. What is given by reference outlives it.
  Assignment(v1::Assign assign, const AssignmentOptions& options, RunnerPool& pool,
             DeviceLeases& leases, AssignmentListener& listener);
  Assignment(const Assignment&) = delete;
  Assignment& operator=(const Assignment&) = delete;
  ~Assignment();  // aborts, and waits for the end

  const std::string& name() const { return assign_.assignment(); }
  bool finished() const { return finished_; }

  // From any thread.
  void Abort(std::string reason);
  void Deliver(const v1::WorkerRendezvousValue& value);
  // The connection to the coordinator is gone. Ranks on several workers cannot meet until the next.
  void Disconnect();
  // The connection to the coordinator is new: relays again what has no answer.
  void Resend();

 private:
  void Run();
  absl::Status Start();
  absl::Status Check() const;
  v1::ToRunner MakeRunCohort(const v1::Assign::Placement& placement, const DeviceSlot& slot) const;
  const DeviceSlot* FindSlot(const std::string& device) const;
  bool AllHere() const { return assign_.placements_size() == assign_.cohort().ranks(); }
  absl::Duration Grace() const;

  // One turn of the loop.
  void Wait(absl::Time deadline);
  void TakeCommands();
  void ReadRank(RankState& rank);
  // Returns how many there were.
  int ReadMessages(RankState& rank);
  void Handle(RankState& rank, const v1::FromRunner& message);
  void TurnTo(RankState& rank, int trial, const std::string& stage);
  void HandleSamples(const v1::TrialSamples& samples);
  void HandleCompleted(RankState& rank, const v1::TrialCompleted& completed);
  void HandleExit(RankState& rank, const ProcessEnd& end);
  void CheckLimits(absl::Time now);
  void CheckTrial(RankState& rank, absl::Time now);
  // Of its current trial's limit and grace, less what the coordinator's absence takes of it.
  absl::Duration TimeLeft(const RankState& rank, absl::Time now) const;
  v1::TrialResult ExcuseByAbsence(v1::TrialResult result, const RankState& rank, int trial,
                                  absl::Time now) const;
  void EndBy(const RankState& rank, const absl::Status& failure);
  void CheckIdle(RankState& rank, absl::Time now);
  absl::Time NextDeadline(absl::Time now);
  bool AllRanksOver() const;

  void BeginAbort(const std::string& reason, v1::Fault fault);
  void KillRemaining(absl::Time now);
  void Finish();

  v1::TrialResult Failure(v1::Outcome outcome, v1::Fault fault, const std::string& reason,
                          int rank) const;
  void Send(v1::AssignmentEvent event);
  void SendEnded(const std::optional<TrialLedger::Ended>& ended);
  void SendOutput(const RankState& rank, std::vector<RankOutput::Piece> pieces);
  void WriteTo(RankState& rank, const v1::ToRunner& message);

  const v1::Assign assign_;
  const AssignmentOptions& options_;
  RunnerPool& pool_;
  DeviceLeases& leases_;
  AssignmentListener& listener_;

  // Commands of other threads; wake_ makes the loop look.
  FileDescriptor wake_;
  std::mutex mutex_;
  std::optional<std::string> abort_command_;
  std::vector<v1::WorkerRendezvousValue> values_;
  bool resend_ = false;
  bool connected_ = true;
  std::atomic<bool> give_up_ = false;
  std::atomic<bool> finished_ = false;

  // Of the thread.
  std::vector<std::unique_ptr<RankState>> ranks_;
  TrialLedger ledger_;
  std::unique_ptr<AssignmentRendezvous> rendezvous_;
  bool aborting_ = false;
  bool killed_ = false;
  absl::Time abort_deadline_ = absl::InfiniteFuture();
  std::string end_reason_;
  v1::Fault end_fault_ = v1::FAULT_UNSPECIFIED;
  int64_t out_of_memory_kills_ = 0;
  absl::Time progress_sent_ = absl::InfinitePast();
  std::string progress_stage_;

  std::thread thread_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_ASSIGNMENT_H_
