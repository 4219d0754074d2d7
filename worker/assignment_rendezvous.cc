#include "worker/assignment_rendezvous.h"

#include <algorithm>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/proto_time.h"

namespace lcab::worker {
namespace {

// For gets that name no timeout, so that every wait ends.
constexpr absl::Duration kDefaultTimeout = absl::Minutes(1);

// A second value for a key changes nothing, here as at the coordinator, and those who wait have
// heard of an abort.
absl::Status Fault(const absl::Status& stored) {
  return absl::IsAlreadyExists(stored) || absl::IsAborted(stored) ? absl::OkStatus() : stored;
}

}  // namespace

AssignmentRendezvous::AssignmentRendezvous(std::string assignment, Answer answer, Relay relay,
                                           int64_t max_bytes)
    : assignment_(std::move(assignment)),
      answer_(std::move(answer)),
      relay_(std::move(relay)),
      table_(max_bytes) {
  table_.Open(assignment_);
}

absl::Status AssignmentRendezvous::Put(const v1::RendezvousPut& put) {
  const absl::Status stored = table_.Put(assignment_, put.key(), put.value());
  if (!stored.ok() || !relay_) return Fault(stored);
  puts_.push_back(put);
  RelayPut(put);
  return absl::OkStatus();
}

void AssignmentRendezvous::Get(int rank, const v1::RendezvousGet& get, absl::Time now) {
  const Request request(rank, get.request());
  const Waiting waiting{get.key(),
                        now + (get.has_timeout() ? FromProto(get.timeout()) : kDefaultTimeout)};
  waiting_[request] = waiting;
  table_.Get(assignment_, waiting.key, waiting.deadline,
             [this, request](absl::StatusOr<std::string> value) {
               waiting_.erase(request);
               v1::RendezvousValue answer;
               answer.set_request(request.second);
               if (value.ok()) {
                 answer.set_value(*std::move(value));
               } else {
                 const absl::string_view message = value.status().message();
                 answer.set_code(value.status().raw_code());
                 answer.set_error(message.data(), message.size());
               }
               answer_(request.first, answer);
             });
  if (relay_ && waiting_.count(request) > 0) RelayGet(request, waiting, now);
}

absl::Status AssignmentRendezvous::Deliver(int rank, const v1::RendezvousValue& value) {
  const auto waiting = waiting_.find({rank, value.request()});
  if (waiting == waiting_.end()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(value.code());
  if (code == absl::StatusCode::kOk) {
    const std::string key = waiting->second.key;
    return Fault(table_.Put(assignment_, key, value.value()));
  }
  if (code != absl::StatusCode::kDeadlineExceeded) {
    // Aborted, or unknown to a coordinator that has given it up. (Deadlines are kept here.)
    Abort(value.error());
  }
  return absl::OkStatus();
}

void AssignmentRendezvous::Abort(const std::string& reason) { table_.Abort(assignment_, reason); }

absl::Time AssignmentRendezvous::Expire(absl::Time now) { return table_.Expire(now); }

void AssignmentRendezvous::Resend(absl::Time now) {
  if (!relay_) return;
  for (const v1::RendezvousPut& put : puts_) RelayPut(put);
  for (const auto& [request, waiting] : waiting_) RelayGet(request, waiting, now);
}

void AssignmentRendezvous::RelayPut(const v1::RendezvousPut& put) {
  v1::FromWorker message;
  message.mutable_put()->set_assignment(assignment_);
  *message.mutable_put()->mutable_put() = put;
  relay_(std::move(message));
}

void AssignmentRendezvous::RelayGet(const Request& request, const Waiting& waiting,
                                    absl::Time now) {
  v1::FromWorker message;
  v1::WorkerRendezvousGet& get = *message.mutable_get();
  get.set_assignment(assignment_);
  get.set_rank(request.first);
  get.mutable_get()->set_request(request.second);
  get.mutable_get()->set_key(waiting.key);
  *get.mutable_get()->mutable_timeout() =
      ToProto(std::max(waiting.deadline - now, absl::ZeroDuration()));
  relay_(std::move(message));
}

}  // namespace lcab::worker
