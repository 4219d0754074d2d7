#include "worker/runner/connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "proto/proto_time.h"

namespace lcab::runner {
namespace {

// A worker that reads nothing for this long is as good as gone.
constexpr absl::Duration kSendTimeout = absl::Minutes(2);
// A Get is answered by the other side, also when time is up; only a worker that is stuck does not.
constexpr absl::Duration kAnswerGrace = absl::Seconds(5);

}  // namespace

Connection::Connection(worker::FileDescriptor socket) : channel_(std::move(socket)) {
  reader_ = std::thread([this] { Read(); });
  v1::FromRunner message;
  message.set_ready(true);
  Send(message).IgnoreError();  // a worker that is gone shows in NextCohort()
}

Connection::~Connection() {
  channel_.Shutdown();
  reader_.join();
}

void Connection::Read() {
  while (true) {
    v1::ToRunner message;
    if (!channel_.Read(message, absl::InfiniteFuture()).ok()) break;
    if (message.shutdown()) break;
    Handle(std::move(message));
  }
  Abort("the worker is gone");
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Connection::Handle(v1::ToRunner message) {
  if (message.has_abort()) {
    Abort(message.abort().reason());
    return;
  }
  const std::lock_guard lock(mutex_);
  if (message.has_run()) {
    abort_reason_.reset();
    cohorts_.push_back(std::move(*message.mutable_run()));
  } else if (message.has_value()) {
    // Of a Get that has given up: nobody will fetch it.
    const auto waiting = values_.find(message.value().request());
    if (waiting == values_.end()) return;
    waiting->second = std::move(*message.mutable_value());
  }
  changed_.notify_all();
}

void Connection::Abort(const std::string& reason) {
  const std::lock_guard callback_lock(callback_mutex_);
  std::function<void(const std::string&)> callback;
  {
    const std::lock_guard lock(mutex_);
    if (abort_reason_.has_value()) return;
    abort_reason_ = reason;
    callback = on_abort_;
    changed_.notify_all();
  }
  if (callback != nullptr) callback(reason);
}

void Connection::OnAbort(std::function<void(const std::string&)> callback) {
  const std::lock_guard callback_lock(callback_mutex_);
  std::optional<std::string> reason;
  {
    const std::lock_guard lock(mutex_);
    on_abort_ = std::move(callback);
    reason = abort_reason_;
  }
  // Only this function changes it, and only one thread at a time is here.
  if (on_abort_ != nullptr && reason.has_value()) on_abort_(*reason);
}

std::optional<std::string> Connection::abort_reason() const {
  const std::lock_guard lock(mutex_);
  return abort_reason_;
}

std::optional<v1::RunCohort> Connection::NextCohort() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !cohorts_.empty(); });
  if (ended_) return std::nullopt;
  v1::RunCohort cohort = std::move(cohorts_.front());
  cohorts_.pop_front();
  return cohort;
}

absl::Status Connection::Send(const v1::FromRunner& message) {
  return channel_.Write(message, absl::Now() + kSendTimeout);
}

absl::Status Connection::Put(std::string_view key, std::string_view value) {
  if (const std::optional<std::string> reason = abort_reason()) return absl::AbortedError(*reason);
  v1::FromRunner message;
  message.mutable_put()->set_key(std::string(key));
  message.mutable_put()->set_value(std::string(value));
  return Send(message);
}

absl::StatusOr<std::string> Connection::Get(std::string_view key, absl::Time deadline) {
  v1::FromRunner message;
  v1::RendezvousGet& get = *message.mutable_get();
  {
    const std::lock_guard lock(mutex_);
    if (abort_reason_.has_value()) return absl::AbortedError(*abort_reason_);
    get.set_request(++last_request_);
    values_.emplace(get.request(), v1::RendezvousValue());
  }
  get.set_key(std::string(key));
  *get.mutable_timeout() = ToProto(std::max(absl::ZeroDuration(), deadline - absl::Now()));
  const absl::Status sent = Send(message);

  const std::chrono::nanoseconds limit =
      absl::ToChronoNanoseconds(deadline - absl::Now() + kAnswerGrace);
  std::unique_lock lock(mutex_);
  v1::RendezvousValue& value = values_[get.request()];
  if (sent.ok()) {
    changed_.wait_for(
        lock, limit, [&] { return abort_reason_.has_value() || value.request() == get.request(); });
  }
  const v1::RendezvousValue answer = std::move(value);
  values_.erase(get.request());
  if (!sent.ok()) return sent;
  if (answer.request() == get.request()) {
    if (answer.code() == 0 && answer.error().empty()) return answer.value();
    const int code =
        answer.code() == 0 ? static_cast<int>(absl::StatusCode::kInternal) : answer.code();
    return absl::Status(static_cast<absl::StatusCode>(code), answer.error());
  }
  if (abort_reason_.has_value()) return absl::AbortedError(*abort_reason_);
  return absl::DeadlineExceededError(fmt::format("no answer about the key '{}'", key));
}

}  // namespace lcab::runner
