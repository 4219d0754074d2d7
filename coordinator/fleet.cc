#include "coordinator/fleet.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {

void Session::Send(v1::ToWorker message) {
  std::function<void()> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    queued_bytes_ += message.ByteSizeLong();
    queue_.push_back(std::move(message));
    changed_.notify_all();
    if (queued_bytes_ <= kMaxQueuedBytes) return;
  }
  Cancel();
}

std::optional<v1::ToWorker> Session::Next(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout),
                    [this] { return closed_ || !queue_.empty(); });
  if (closed_ || queue_.empty()) return std::nullopt;
  v1::ToWorker message = std::move(queue_.front());
  queue_.pop_front();
  queued_bytes_ -= message.ByteSizeLong();
  return message;
}

void Session::Cancel() {
  // Under the lock: Close comes after it or before it, never while the stream goes away.
  const std::lock_guard lock(mutex_);
  if (!closed_ && cancel_) cancel_();
}

void Session::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  queue_.clear();
  queued_bytes_ = 0;
  cancel_ = nullptr;
  changed_.notify_all();
}

bool Session::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

SessionPtr Fleet::Enter(std::function<void()> cancel, absl::Time now) {
  auto session = std::make_shared<Session>(std::move(cancel));
  const std::lock_guard lock(mutex_);
  guests_[session] = {.connected = now, .heard = now};
  return session;
}

absl::Status Fleet::Identify(const SessionPtr& session, const v1::Hello& hello, absl::Time now) {
  SessionPtr replaced;
  {
    const std::lock_guard lock(mutex_);
    const auto before = by_worker_.find(hello.worker_id());
    if (before != by_worker_.end()) {
      const Guest& other = guests_.at(before->second);
      if (other.incarnation != hello.incarnation() && now - other.heard <= heartbeat_timeout_) {
        return service::ErrorWithInfo(
            absl::StatusCode::kAlreadyExists,
            fmt::format(
                "the name '{}' is in use by another worker (incarnation {} on host {}, connected "
                "since {}): give this one a name of its own (--name and --state-dir), or stop the "
                "other; one that is dead loses the name after {} of silence",
                hello.worker_id(), other.incarnation,
                other.host.empty() ? std::string_view("unknown") : std::string_view(other.host),
                absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", other.connected, absl::UTCTimeZone()),
                absl::FormatDuration(heartbeat_timeout_)),
            "WORKER_CONNECTED", {{"worker", hello.worker_id()}});
      }
      replaced = before->second;
      Guest& old = guests_.at(replaced);
      old.welcomed = false;
      old.placeable = false;
    }
    Guest& guest = guests_.at(session);
    guest.worker = hello.worker_id();
    guest.incarnation = hello.incarnation();
    guest.host = hello.environment().hostname();
    guest.heard = now;
    guest.view.id = hello.worker_id();
    for (const v1::Device& device : hello.devices()) {
      guest.view.devices.push_back(
          {.id = device.id(), .kind = device.kind(), .model = device.model()});
    }
    for (const v1::KernelInfo& kernel : hello.kernels()) {
      guest.view.kernels[kernel.device_kind()].insert(kernel.name());
    }
    by_worker_.insert_or_assign(hello.worker_id(), session);
  }
  if (replaced != nullptr) replaced->Cancel();
  return absl::OkStatus();
}

void Fleet::Welcome(const SessionPtr& session, v1::ToWorker welcome) {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(session);
  if (guest == guests_.end()) return;
  guest->second.welcomed = true;
  session->Send(std::move(welcome));
}

void Fleet::Connect(const SessionPtr& session) {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(session);
  // One that was replaced meanwhile is not welcome any more.
  if (guest != guests_.end()) guest->second.placeable = guest->second.welcomed;
}

bool Fleet::IsCurrent(const SessionPtr& session) const {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(session);
  return guest != guests_.end() && guest->second.welcomed;
}

void Fleet::Hear(const SessionPtr& session, absl::Time now, bool busy) {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(session);
  if (guest == guests_.end()) return;
  guest->second.heard = now;
  guest->second.busy = busy;
}

void Fleet::Leave(const SessionPtr& session) {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(session);
  if (guest == guests_.end()) return;
  if (!guest->second.worker.empty()) {
    absl::Time& last = last_heard_[guest->second.worker];
    last = std::max(last, guest->second.heard);
  }
  const auto named = by_worker_.find(guest->second.worker);
  if (named != by_worker_.end() && named->second == session) by_worker_.erase(named);
  guests_.erase(guest);
}

bool Fleet::Send(std::string_view worker, v1::ToWorker message) {
  const std::lock_guard lock(mutex_);
  const auto named = by_worker_.find(worker);
  if (named == by_worker_.end() || !guests_.at(named->second).welcomed) return false;
  named->second->Send(std::move(message));
  return true;
}

void Fleet::Sweep(absl::Time now) {
  std::vector<SessionPtr> silent;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [session, guest] : guests_) {
      if (!guest.busy && now - guest.heard > heartbeat_timeout_) silent.push_back(session);
    }
  }
  for (const SessionPtr& session : silent) session->Cancel();
}

void Fleet::HearAll(absl::Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& [session, guest] : guests_) guest.heard = std::max(guest.heard, now);
  for (auto& [worker, heard] : last_heard_) heard = std::max(heard, now);
}

void Fleet::CancelAll() {
  std::vector<SessionPtr> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [session, guest] : guests_) all.push_back(session);
  }
  for (const SessionPtr& session : all) session->Cancel();
}

void Fleet::SetStopping(const SessionPtr& session, bool stopping) {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(session);
  if (guest != guests_.end()) guest->second.view.draining = stopping;
}

std::vector<WorkerView> Fleet::Workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerView> workers;
  for (const auto& [worker, session] : by_worker_) {
    const Guest& guest = guests_.at(session);
    if (guest.placeable) workers.push_back(guest.view);
  }
  return workers;
}

std::map<std::string, absl::Time> Fleet::Heard(absl::Time now) const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, absl::Time> heard = last_heard_;
  for (const auto& [worker, session] : by_worker_) {
    const Guest& guest = guests_.at(session);
    heard[worker] = guest.busy ? now : guest.heard;
  }
  return heard;
}

std::vector<FleetMember> Fleet::Members() const {
  const std::lock_guard lock(mutex_);
  std::vector<FleetMember> members;
  for (const auto& [worker, session] : by_worker_) {
    const Guest& guest = guests_.at(session);
    members.push_back({.worker = worker,
                       .connected = guest.connected,
                       .heard = guest.heard,
                       .stopping = guest.view.draining});
  }
  return members;
}

}  // namespace lcab::coordinator
