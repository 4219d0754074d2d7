#include "client/event_stream.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "grpcpp/support/sync_stream.h"

namespace lcab::client {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(300);
// Events that wait to be shown; a stream that is not read is held up by gRPC's flow control.
constexpr size_t kMostEvents = 1000;

}  // namespace

EventStream::EventStream(CoordinatorLink& link, std::string job, int64_t after_sequence,
                         absl::Duration patience)
    : link_(link),
      job_(std::move(job)),
      patience_(patience),
      last_sequence_(after_sequence),
      thread_([this] { Run(); }) {}

EventStream::~EventStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<v1::JobEvent> EventStream::Next(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                    [this] { return !events_.empty() || ended_; });
  if (events_.empty()) return std::nullopt;
  v1::JobEvent event = std::move(events_.front());
  events_.pop_front();
  changed_.notify_all();
  return event;
}

bool EventStream::over() {
  const std::lock_guard lock(mutex_);
  return ended_ && events_.empty();
}

absl::Status EventStream::status() {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool EventStream::away() {
  const std::lock_guard lock(mutex_);
  return away_;
}

void EventStream::Run() {
  absl::Time heard = absl::Now();
  while (true) {
    int64_t before = 0;
    {
      const std::lock_guard lock(mutex_);
      before = last_sequence_;
    }
    const grpc::Status status = Read();
    std::unique_lock lock(mutex_);
    if (last_sequence_ != before) heard = absl::Now();
    const bool lost = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      // A coordinator that stops ends its streams so.
                      (status.error_code() == grpc::StatusCode::CANCELLED && !stopping_);
    if (stopping_ || !lost || absl::Now() > heard + patience_) {
      status_ = link_.Explain(status);
      ended_ = true;
      changed_.notify_all();
      return;
    }
    away_ = true;
    // One that stands and yet ends its streams is not asked without pause.
    changed_.wait_for(lock, absl::ToChronoNanoseconds(kRetry), [this] { return stopping_; });
    lock.unlock();
    link_.WaitForConnection(kRetry);
  }
}

grpc::Status EventStream::Read() {
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_name(job_);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return grpc::Status::CANCELLED;
    request.set_after_sequence(last_sequence_);
    context_ = &context;
  }
  const auto reader = link_.jobs().WatchJob(&context, request);
  v1::JobEvent event;
  while (reader->Read(&event)) {
    std::unique_lock lock(mutex_);
    away_ = false;
    changed_.wait(lock, [this] { return stopping_ || events_.size() < kMostEvents; });
    if (event.sequence() > last_sequence_) last_sequence_ = event.sequence();
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  grpc::Status status = reader->Finish();
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
  return status;
}

}  // namespace lcab::client
