// What the coordinator's services share: the store, who is connected, ranks that meet, watchers,
// metrics; and the thread that schedules.
//
//   absl::Status status = core.Change([&](Step& step) { return CancelJob(step, job); });

#ifndef LCAB_COORDINATOR_CORE_H_
#define LCAB_COORDINATOR_CORE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/effects.h"
#include "coordinator/fleet.h"
#include "coordinator/job_news.h"
#include "coordinator/metrics.h"
#include "coordinator/scheduler.h"
#include "coordinator/store.h"
#include "coordinator/submission.h"
#include "service/rendezvous_table.h"

namespace lcab::coordinator {

struct CoreOptions {
  int max_attempts = 3;
  absl::Duration grace = absl::Seconds(5);
  // A worker is lost when it is not heard of for this long; it is asked for a heartbeat three times
  // as often.
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  SuiteExpander expand;
  std::function<absl::Time()> now;
  // Only answers what the file holds; nothing of it changes, and Start is not called.
  bool read_only = false;
  // Told by Tick when the store begins to fail (false), and when it takes changes again.
  std::function<void(bool healthy)> health_changed;
};

// Thread-safe.
class Core {
 public:
  static absl::StatusOr<std::unique_ptr<Core>> Open(const std::string& path, CoreOptions options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  // Runs a step in a change of the store, and what follows from it once that is committed.
  // `committed` is called after that, on the store's thread, in the order of commits.
  absl::Status Change(const std::function<absl::Status(Step&)>& change,
                      std::function<void()> committed = nullptr);
  absl::Status Read(const std::function<absl::Status(Connection&)>& read) {
    return store_->Read(read);
  }

  // Starts scheduling, in a thread of its own, until Stop. Tests call Tick instead.
  void Start();
  void Stop();
  // One round: loses silent workers, ends what is overdue, places what waits.
  void Tick();

  // Why nothing new of the job runs; empty when something does, or nothing is known yet.
  std::string WaitingReason(int64_t job) const;

  // Not ok when the store failed, or the scheduler stands still.
  absl::Status Health() const;
  // See Store::FirstFailure.
  absl::Status StoreFailure() const { return store_->FirstFailure(); }

  absl::Time Now() const { return options_.now(); }
  const CoreOptions& options() const { return options_; }
  Fleet& fleet() { return fleet_; }
  service::RendezvousTable& rendezvous() { return rendezvous_; }
  JobNews& news() { return news_; }
  Metrics& metrics() { return *metrics_; }
  std::shared_ptr<Metrics> shared_metrics() { return metrics_; }
  bool stopping() const { return stopping_; }

 private:
  Core(std::unique_ptr<Store> store, CoreOptions options);
  absl::Status Recover();
  void CarryOut(const Effects& effects);
  void RunScheduler();
  // False while the store takes no changes: nothing is handed out then.
  bool StoreWorks();
  MetricsSnapshot TakeSnapshot();

  const CoreOptions options_;
  Fleet fleet_;
  service::RendezvousTable rendezvous_;
  JobNews news_;
  const std::shared_ptr<Metrics> metrics_;

  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  bool schedule_wanted_ = true;
  std::atomic<bool> stopping_ = false;
  std::map<int64_t, std::string> reasons_;
  absl::Time started_;
  absl::Time last_tick_;
  bool store_failing_ = false;      // of Tick
  std::atomic<int64_t> pulse_ = 0;  // seconds since 1970 of the last round, 0 before the first

  // After what its changes refer to, so that it is destroyed, and its thread joined, before.
  std::unique_ptr<Store> store_;
  std::thread scheduler_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_CORE_H_
