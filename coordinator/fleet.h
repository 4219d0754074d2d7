// The workers that are connected: a session for each stream, with what is to be sent on it and when
// it was last heard of. Nothing of it is stored.

#ifndef LCAB_COORDINATOR_FLEET_H_
#define LCAB_COORDINATOR_FLEET_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/scheduler.h"
#include "lcab/v1/fleet.pb.h"

namespace lcab::coordinator {

// One stream of a worker. Two threads use it: the stream's handler reads, another one writes what
// Next gives it. Thread-safe.
class Session {
 public:
  // `cancel` ends the stream; it is called at most until Close.
  explicit Session(std::function<void()> cancel) : cancel_(std::move(cancel)) {}

  // Queues; never blocks. A peer that lets more than kMaxQueuedBytes pile up is cancelled.
  void Send(v1::ToWorker message);
  // The next message to write, in order; nothing when none came within `timeout`, or after Close.
  std::optional<v1::ToWorker> Next(absl::Duration timeout);
  void Cancel();
  // The stream is over: wakes Next, and `cancel` is not called any more.
  void Close();
  bool closed() const;

  static constexpr size_t kMaxQueuedBytes = 64 << 20;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::ToWorker> queue_;
  size_t queued_bytes_ = 0;
  bool closed_ = false;
  std::function<void()> cancel_;
};

using SessionPtr = std::shared_ptr<Session>;

struct FleetMember {
  std::string worker;
  absl::Time connected;
  absl::Time heard;
  bool stopping = false;
};

// Thread-safe.
class Fleet {
 public:
  explicit Fleet(absl::Duration heartbeat_timeout) : heartbeat_timeout_(heartbeat_timeout) {}

  // A stream has begun; who it is comes with its hello.
  SessionPtr Enter(std::function<void()> cancel, absl::Time now);

  // The stream is this worker's. An earlier stream of the same incarnation is cancelled and
  // replaced; AlreadyExists while another incarnation is connected and heard of.
  absl::Status Identify(const SessionPtr& session, const v1::Hello& hello, absl::Time now);

  // From here on it is sent messages: its welcome is the first.
  void Welcome(const SessionPtr& session, v1::ToWorker welcome);
  // From here on it is given work.
  void Connect(const SessionPtr& session);
  // The worker is being stopped, by its own word: it is given nothing new.
  void SetStopping(const SessionPtr& session, bool stopping);

  // False once another stream has taken this one's place.
  bool IsCurrent(const SessionPtr& session) const;

  // Something was read; while `busy`, what was read is being stored and the worker counts as heard
  // of.
  void Hear(const SessionPtr& session, absl::Time now, bool busy);
  void Leave(const SessionPtr& session);

  // False when it has no stream, or was not welcomed: what is sent to nobody is gone.
  bool Send(std::string_view worker, v1::ToWorker message);

  // Cancels streams that were not heard of in time.
  void Sweep(absl::Time now);
  // The process itself stood still: nobody is to blame.
  void HearAll(absl::Time now);
  void CancelAll();

  // Those that may be given work, with devices that are all free as far as the fleet knows.
  std::vector<WorkerView> Workers() const;
  // Of every worker that was ever here.
  std::map<std::string, absl::Time> Heard(absl::Time now) const;
  std::vector<FleetMember> Members() const;

 private:
  struct Guest {
    std::string worker;  // empty before its hello
    std::string incarnation;
    std::string host;
    WorkerView view;
    absl::Time connected;
    absl::Time heard;
    bool welcomed = false;
    bool placeable = false;
    bool busy = false;
  };

  const absl::Duration heartbeat_timeout_;
  mutable std::mutex mutex_;
  std::map<SessionPtr, Guest> guests_;
  std::map<std::string, SessionPtr, std::less<>> by_worker_;
  std::map<std::string, absl::Time> last_heard_;  // of those that left
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_FLEET_H_
