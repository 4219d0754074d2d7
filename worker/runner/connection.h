// The runner's end of the channel to its worker: commands, the rendezvous of the attempt, events.
// A thread of its own reads, so that an abort and the values of others arrive while a kernel runs.

#ifndef LCAB_WORKER_RUNNER_CONNECTION_H_
#define LCAB_WORKER_RUNNER_CONNECTION_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cp/transport.h"
#include "lcab/v1/runner.pb.h"
#include "worker/channel.h"

namespace lcab::runner {

class Connection : public cp::Rendezvous {
 public:
  // Takes the socket over, and tells the worker that the runner is ready.
  explicit Connection(worker::FileDescriptor socket);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits for work. Nothing: the worker asks the runner to end, or is gone.
  std::optional<v1::RunCohort> NextCohort();

  // Unavailable when the worker is gone; DeadlineExceeded when it does not read.
  absl::Status Send(const v1::FromRunner& message);

  // The rendezvous of the cohort that runs. Aborted from when the worker aborts it, with its
  // reason.
  absl::Status Put(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::string> Get(std::string_view key, absl::Time deadline) override;

  // The reason when the worker aborted the cohort that runs.
  std::optional<std::string> abort_reason() const;
  // Called once, from the reading thread, when that happens; at once when it has. Empty: nobody.
  void OnAbort(std::function<void(const std::string& reason)> callback);

 private:
  void Read();
  void Handle(v1::ToRunner message);
  void Abort(const std::string& reason);

  worker::Channel channel_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::RunCohort> cohorts_;
  std::map<int64_t, v1::RendezvousValue> values_;  // by request, for those that wait
  std::optional<std::string> abort_reason_;
  std::function<void(const std::string&)> on_abort_;
  int64_t last_request_ = 0;
  bool ended_ = false;
  std::mutex callback_mutex_;  // held while the callback runs, so that it can be taken away
  std::thread reader_;
};

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_CONNECTION_H_
