#include "device/cpu/cpu_streams.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "fmt/format.h"

namespace lcab {

std::chrono::steady_clock::time_point ToSteady(absl::Time deadline) {
  // A century stands for ever: infinity does not fit the clock's integers.
  const absl::Duration left =
      std::clamp(deadline - absl::Now(), absl::ZeroDuration(), absl::Hours(24 * 365 * 100));
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(left);
}

absl::StatusOr<CpuStream*> AsCpuStream(Stream& stream) {
  auto* cpu_stream = dynamic_cast<CpuStream*>(&stream);
  if (cpu_stream == nullptr) {
    return absl::InvalidArgumentError("the stream belongs to another kind of device, not to a CPU");
  }
  return cpu_stream;
}

absl::StatusOr<std::unique_ptr<ThreadStream>> ThreadStream::Create() {
  std::unique_ptr<ThreadStream> stream(new ThreadStream);
  try {
    stream->thread_ =
        std::jthread([raw = stream.get()](const std::stop_token& stop) { raw->Loop(stop); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot start the thread of a stream: {}", error.what()));
  }
  return stream;
}

ThreadStream::~ThreadStream() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status ThreadStream::Enqueue(std::function<absl::Status()> work) {
  return EnqueueMark(
      [work = std::move(work)](const absl::Status& so_far, const std::stop_token&) -> absl::Status {
        return so_far.ok() ? work() : absl::OkStatus();
      });
}

absl::Status ThreadStream::EnqueueMark(Mark mark) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(mark));
    ++enqueued_;
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status ThreadStream::Synchronize(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const int64_t target = enqueued_;
  if (!changed_.wait_until(lock, ToSteady(deadline), [&] { return finished_ >= target; })) {
    return absl::DeadlineExceededError(
        fmt::format("a stream still has {} of its pieces of work to finish at the deadline",
                    target - finished_));
  }
  return std::exchange(error_, absl::OkStatus());
}

void ThreadStream::Loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !queue_.empty(); }) && !stop.stop_requested()) {
    const Mark mark = std::move(queue_.front());
    queue_.pop_front();
    const absl::Status so_far = error_;
    lock.unlock();
    const absl::Status status = mark(so_far, stop);
    lock.lock();
    if (error_.ok()) error_ = status;
    ++finished_;
    changed_.notify_all();
  }
}

absl::Status CpuEvent::Record(Stream& stream) {
  const absl::StatusOr<CpuStream*> cpu_stream = AsCpuStream(stream);
  if (!cpu_stream.ok()) return cpu_stream.status();
  int64_t number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    number = ++state_->recorded;
  }
  return (*cpu_stream)
      ->EnqueueMark([state = state_, number](const absl::Status& so_far, const std::stop_token&) {
        {
          const std::lock_guard lock(state->mutex);
          if (number > state->done) {
            state->done = number;
            state->status = so_far;
          }
        }
        state->reached.notify_all();
        return absl::OkStatus();
      });
}

absl::Status CpuEvent::Wait(Stream& stream) {
  const absl::StatusOr<CpuStream*> cpu_stream = AsCpuStream(stream);
  if (!cpu_stream.ok()) return cpu_stream.status();
  int64_t number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    number = state_->recorded;
  }
  return (*cpu_stream)
      ->EnqueueMark([state = state_, number, limit = wait_limit_](
                        const absl::Status& so_far, const std::stop_token& stop) -> absl::Status {
        if (!so_far.ok()) return absl::OkStatus();
        std::unique_lock lock(state->mutex);
        const bool reached = state->reached.wait_until(lock, stop, ToSteady(absl::Now() + limit),
                                                       [&] { return state->done >= number; });
        if (reached) return state->status;
        if (stop.stop_requested()) return absl::CancelledError("the waiting stream was destroyed");
        return absl::DeadlineExceededError(
            fmt::format("a stream waited {} for an event of another stream, in vain",
                        absl::FormatDuration(limit)));
      });
}

absl::Status CpuTimer::Start(Stream& stream) {
  const absl::StatusOr<CpuStream*> cpu_stream = AsCpuStream(stream);
  if (!cpu_stream.ok()) return cpu_stream.status();
  {
    const std::lock_guard lock(state_->mutex);
    state_->start.reset();
    state_->stop.reset();
  }
  return (*cpu_stream)->EnqueueMark([state = state_](const absl::Status&, const std::stop_token&) {
    const std::lock_guard lock(state->mutex);
    state->start = Clock::now();
    return absl::OkStatus();
  });
}

absl::Status CpuTimer::Stop(Stream& stream) {
  const absl::StatusOr<CpuStream*> cpu_stream = AsCpuStream(stream);
  if (!cpu_stream.ok()) return cpu_stream.status();
  return (*cpu_stream)->EnqueueMark([state = state_](const absl::Status&, const std::stop_token&) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(state->mutex);
    state->stop = now;
    return absl::OkStatus();
  });
}

absl::StatusOr<absl::Duration> CpuTimer::Elapsed() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->start || !state_->stop) {
    return absl::FailedPreconditionError(
        "a timer was read before its stream came to both Start and Stop: synchronise first");
  }
  const absl::Duration elapsed = absl::FromChrono(*state_->stop - *state_->start);
  if (elapsed <= absl::ZeroDuration()) {
    return absl::InternalError(
        fmt::format("the clock says that {} passed between Start and Stop: no sample",
                    absl::FormatDuration(elapsed)));
  }
  return elapsed;
}

}  // namespace lcab
