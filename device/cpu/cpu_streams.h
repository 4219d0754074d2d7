// Streams, events and timers of a CPU device.

#ifndef LCAB_DEVICE_CPU_CPU_STREAMS_H_
#define LCAB_DEVICE_CPU_CPU_STREAMS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "device/device.h"

namespace lcab {

// What both kinds of CPU stream offer to events and timers.
class CpuStream : public Stream {
 public:
  // Work that also runs after an error, which it is given, so that whoever waits for it is told
  // rather than left waiting. Its own error counts as the stream's when there was none.
  using Mark = std::function<absl::Status(const absl::Status& so_far, std::stop_token stop)>;
  virtual absl::Status EnqueueMark(Mark mark) = 0;
};

// Runs work in the calling thread.
class InlineStream : public CpuStream {
 public:
  absl::Status Synchronize(absl::Time /*deadline*/) override { return absl::OkStatus(); }
  absl::Status Enqueue(std::function<absl::Status()> work) override { return work(); }
  absl::Status EnqueueMark(Mark mark) override { return mark(absl::OkStatus(), {}); }
};

// Runs work in a thread of its own. Destruction drops what has not begun and joins.
class ThreadStream : public CpuStream {
 public:
  // ResourceExhausted when the thread cannot start.
  static absl::StatusOr<std::unique_ptr<ThreadStream>> Create();
  ~ThreadStream() override;

  absl::Status Synchronize(absl::Time deadline) override;
  absl::Status Enqueue(std::function<absl::Status()> work) override;
  absl::Status EnqueueMark(Mark mark) override;

 private:
  ThreadStream() = default;
  void Loop(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Mark> queue_;
  int64_t enqueued_ = 0;
  int64_t finished_ = 0;
  absl::Status error_;  // the first since the last Synchronize()
  std::jthread thread_;
};

class CpuEvent : public Event {
 public:
  explicit CpuEvent(absl::Duration wait_limit)
      : wait_limit_(wait_limit), state_(std::make_shared<State>()) {}
  absl::Status Record(Stream& stream) override;
  absl::Status Wait(Stream& stream) override;

 private:
  // Shared with the streams, which may outlive the event.
  struct State {
    std::mutex mutex;
    std::condition_variable_any reached;
    int64_t recorded = 0;  // calls of Record()
    int64_t done = 0;      // the last of those that its stream has come to
    absl::Status status;   // of that stream then
  };
  const absl::Duration wait_limit_;
  std::shared_ptr<State> state_;
};

class CpuTimer : public Timer {
 public:
  CpuTimer() : state_(std::make_shared<State>()) {}
  absl::Status Start(Stream& stream) override;
  absl::Status Stop(Stream& stream) override;
  absl::StatusOr<absl::Duration> Elapsed() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::mutex mutex;
    std::optional<Clock::time_point> start, stop;
  };
  std::shared_ptr<State> state_;
};

// The stream as one of a CPU device; InvalidArgument for another device's.
absl::StatusOr<CpuStream*> AsCpuStream(Stream& stream);

// The same moment on the clock that is never set: waits do not jump when the wall clock does.
std::chrono::steady_clock::time_point ToSteady(absl::Time deadline);

}  // namespace lcab

#endif  // LCAB_DEVICE_CPU_CPU_STREAMS_H_
