#include "coordinator/worker_stream_service.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/assignment_table.h"
#include "coordinator/reports.h"
#include "coordinator/trial_table.h"
#include "coordinator/worker_table.h"
#include "fmt/format.h"
#include "proto/proto_time.h"
#include "service/grpc_status.h"
#include "spdlog/spdlog.h"

namespace lcab::coordinator {
namespace {

constexpr int kProtocol = 1;
constexpr int kMaxDevices = 1024;
constexpr int kMaxKernels = 4096;
constexpr absl::Duration kMaxRendezvousWait = absl::Hours(1);

using Stream = grpc::ServerReaderWriter<v1::ToWorker, v1::FromWorker>;

std::string_view Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// One stream, from its hello to its end.
class Conversation {
 public:
  Conversation(Core& core, SessionPtr session) : core_(core), session_(std::move(session)) {}

  absl::Status Greet(const v1::FromWorker& first) {
    if (!first.has_hello()) {
      return absl::InvalidArgumentError("the first message of a worker's stream is its hello");
    }
    hello_ = first.hello();
    if (absl::Status status = CheckHello(hello_); !status.ok()) return status;
    if (absl::Status status = core_.fleet().Identify(session_, hello_, core_.Now()); !status.ok()) {
      return status;
    }
    v1::ToWorker welcome;
    const absl::Duration timeout = core_.options().heartbeat_timeout;
    *welcome.mutable_welcome()->mutable_heartbeat_interval() = ToProto(timeout / 3);
    *welcome.mutable_welcome()->mutable_heartbeat_timeout() = ToProto(timeout);
    // Welcomed in the order of commits: what is stored after the greeting is sent after the
    // welcome.
    absl::Status status = core_.Change(
        [&](Step& step) {
          welcome.mutable_welcome()->clear_abandon();
          for (std::string& name : coordinator::Greet(step, hello_)) {
            welcome.mutable_welcome()->add_abandon(std::move(name));
          }
          return absl::OkStatus();
        },
        [&] { core_.fleet().Welcome(session_, welcome); });
    if (!status.ok()) return status;
    spdlog::info("worker connected worker={} incarnation={} devices={} kernels={} running={}",
                 hello_.worker_id(), hello_.incarnation(), hello_.devices_size(),
                 hello_.kernels_size(), hello_.assignments_size());
    return absl::OkStatus();
  }

  absl::Status Handle(const v1::FromWorker& message) {
    switch (message.message_case()) {
      case v1::FromWorker::kHello:
        return absl::InvalidArgumentError("a worker says hello once a stream");
      case v1::FromWorker::kHeartbeat:
        return OnHeartbeat(message.heartbeat());
      case v1::FromWorker::kPut:
        OnPut(message.put());
        return absl::OkStatus();
      case v1::FromWorker::kGet:
        OnGet(message.get());
        return absl::OkStatus();
      case v1::FromWorker::kEvent:
        return OnEvent(message.event());
      case v1::FromWorker::MESSAGE_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("a message of a kind that this coordinator does not know");
  }

  const std::string& worker() const { return hello_.worker_id(); }

 private:
  absl::Status OnHeartbeat(const v1::Heartbeat& heartbeat) {
    core_.fleet().SetStopping(session_, heartbeat.draining());
    if (!connected_) {
      connected_ = true;
      const std::vector<std::string> running(hello_.assignments().begin(),
                                             hello_.assignments().end());
      return core_.Change([&](Step& step) { return ReconcileUnlessReplaced(step, running); },
                          [this] { core_.fleet().Connect(session_); });
    }
    return Compare(
        std::set<std::string>(heartbeat.assignments().begin(), heartbeat.assignments().end()));
  }

  // Worker and store should agree on what runs. Messages on their way make them differ for a
  // moment; what differs for longer than a heartbeat may take is set right.
  absl::Status Compare(const std::set<std::string>& running) {
    std::set<std::string> stored;
    absl::Status status = core_.Read([&](Connection& db) {
      for (const AssignmentRow& row : AssignmentsOnWorker(db, worker())) stored.insert(row.name);
      return absl::OkStatus();
    });
    if (!status.ok()) return absl::OkStatus();  // no reason to break the stream; Health tells
    std::map<std::string, absl::Time> differs;
    const absl::Time now = core_.Now();
    for (const std::set<std::string>* side : {&running, &std::as_const(stored)}) {
      for (const std::string& name : *side) {
        if (running.count(name) == stored.count(name)) continue;
        const auto before = differs_since_.find(name);
        differs[name] = before == differs_since_.end() ? now : before->second;
      }
    }
    differs_since_ = std::move(differs);
    bool gone = false;
    for (const auto& [name, since] : differs_since_) {
      if (now - since <= core_.options().heartbeat_timeout) continue;
      if (running.count(name) == 0) {
        gone = true;
        continue;
      }
      v1::ToWorker message;
      message.mutable_cancel()->set_assignment(name);
      message.mutable_cancel()->set_reason("the coordinator does not know of it");
      session_->Send(std::move(message));
    }
    if (!gone) return absl::OkStatus();
    std::vector<std::string> alive(running.begin(), running.end());
    for (const std::string& name : stored) {
      const auto since = differs_since_.find(name);
      if (since != differs_since_.end() &&
          now - since->second <= core_.options().heartbeat_timeout) {
        alive.push_back(name);
      }
    }
    return core_.Change([&](Step& step) { return ReconcileUnlessReplaced(step, alive); });
  }

  // A heartbeat that was delayed on a stream that another has replaced says nothing of what was
  // assigned since.
  absl::Status ReconcileUnlessReplaced(Step& step, const std::vector<std::string>& running) {
    if (!core_.fleet().IsCurrent(session_)) {
      return absl::AbortedError("another stream of this worker has replaced this one");
    }
    Reconcile(step, worker(), running);
    return absl::OkStatus();
  }

  void OnPut(const v1::WorkerRendezvousPut& put) {
    const absl::Status status =
        core_.rendezvous().Put(put.assignment(), put.put().key(), put.put().value());
    if (status.ok() || status.code() == absl::StatusCode::kFailedPrecondition ||
        status.code() == absl::StatusCode::kAborted) {
      return;  // of an assignment that is over
    }
    // Ranks would wait in vain for what was not taken.
    spdlog::warn("rendezvous refused a value worker={} error=\"{}\"", worker(), Text(status));
    core_.rendezvous().Abort(put.assignment(), Text(status));
  }

  void OnGet(const v1::WorkerRendezvousGet& get) {
    const absl::Duration wait =
        std::clamp(FromProto(get.get().timeout()), absl::ZeroDuration(), kMaxRendezvousWait);
    core_.rendezvous().Get(get.assignment(), get.get().key(), core_.Now() + wait,
                           [session = session_, assignment = get.assignment(), rank = get.rank(),
                            request = get.get().request()](absl::StatusOr<std::string> answer) {
                             v1::ToWorker message;
                             v1::WorkerRendezvousValue& value = *message.mutable_value();
                             value.set_assignment(assignment);
                             value.set_rank(rank);
                             value.mutable_value()->set_request(request);
                             if (answer.ok()) {
                               value.mutable_value()->set_value(*std::move(answer));
                             } else {
                               value.mutable_value()->set_code(answer.status().raw_code());
                               value.mutable_value()->set_error(std::string(Text(answer.status())));
                             }
                             session->Send(std::move(message));
                           });
  }

  absl::Status OnEvent(const v1::AssignmentEvent& event) {
    if (event.has_progress()) {
      OnProgress(event);
    } else {
      std::string remark;
      absl::Status status = core_.Change([&](Step& step) {
        remark.clear();
        HandleEvent(step, worker(), event, remark);
        return absl::OkStatus();
      });
      if (status.code() == absl::StatusCode::kInternal) {
        // A fault of ours, and the event would meet it again each time it is sent.
        spdlog::error("event dropped worker={} assignment={} sequence={} error=\"{}\"", worker(),
                      event.assignment(), event.sequence(), Text(status));
        status = core_.Change([&](Step& step) {
          Acknowledge(step.db, worker(), event.incarnation(), event.sequence());
          return absl::OkStatus();
        });
      }
      // Not acknowledged: the worker keeps it and sends it again on its next stream.
      if (!status.ok()) return absl::UnavailableError(fmt::format("{}", Text(status)));
      if (!remark.empty()) {
        spdlog::warn("event worker={} assignment={} sequence={} remark=\"{}\"", worker(),
                     event.assignment(), event.sequence(), remark);
      }
    }
    v1::ToWorker message;
    message.mutable_acknowledge()->set_incarnation(event.incarnation());
    message.mutable_acknowledge()->set_sequence(event.sequence());
    session_->Send(std::move(message));
    return absl::OkStatus();
  }

  void OnProgress(const v1::AssignmentEvent& event) {
    std::optional<TrialRow> trial;
    const absl::Status status = core_.Read([&](Connection& db) {
      const auto assignment = FindAssignment(db, event.assignment());
      if (assignment.has_value()) {
        trial = FindTrialAt(db, assignment->cohort, event.progress().trial());
      }
      return absl::OkStatus();
    });
    if (!status.ok() || !trial.has_value() || trial->state != TrialState::kRunning) return;
    core_.news().Publish(trial->job, {.number = trial->number,
                                      .stage = event.progress().stage(),
                                      .samples = event.progress().samples()});
  }

  Core& core_;
  const SessionPtr session_;
  v1::Hello hello_;
  bool connected_ = false;
  std::map<std::string, absl::Time> differs_since_;
};

// Writes what the session is given until it is closed or the peer is gone.
void Write(Session& session, Stream& stream) {
  while (!session.closed()) {
    const std::optional<v1::ToWorker> message = session.Next(absl::Seconds(1));
    if (message.has_value() && !stream.Write(*message)) {
      session.Cancel();  // the reader is told
      return;
    }
  }
}

}  // namespace

absl::Status CheckHello(const v1::Hello& hello) {
  if (hello.protocol() != kProtocol) {
    return service::ErrorWithInfo(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("this coordinator speaks protocol {} with its workers, this worker {}: run the "
                    "same version of lcab on both",
                    kProtocol, hello.protocol()),
        "PROTOCOL_MISMATCH");
  }
  const auto named = [](const std::string& text) {
    return !text.empty() && text.size() <= 100 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == ':';
           });
  };
  if (!named(hello.worker_id())) {
    return absl::InvalidArgumentError(fmt::format(
        "a worker's name is 1 to 100 letters, digits, dots, dashes and underscores; not "
        "'{}'",
        hello.worker_id().substr(0, 100)));
  }
  if (hello.incarnation().empty() || hello.incarnation().size() > 100) {
    return absl::InvalidArgumentError("a worker's incarnation is 1 to 100 bytes");
  }
  if (hello.devices_size() > kMaxDevices || hello.kernels_size() > kMaxKernels) {
    return absl::InvalidArgumentError(
        fmt::format("a worker has at most {} devices and {} kernels", kMaxDevices, kMaxKernels));
  }
  std::set<std::string> ids;
  for (const v1::Device& device : hello.devices()) {
    if (!named(device.id()) || !ids.insert(device.id()).second) {
      return absl::InvalidArgumentError(
          fmt::format("'{}' is no name for a device, or names two", device.id().substr(0, 100)));
    }
  }
  return absl::OkStatus();
}

grpc::Status WorkerStreamService::Connect(grpc::ServerContext* context, Stream* stream) {
  const SessionPtr session = core_.fleet().Enter([context] { context->TryCancel(); }, core_.Now());
  Conversation conversation(core_, session);
  std::thread writer;
  absl::Status status;
  v1::FromWorker message;
  if (!stream->Read(&message)) {
    status = absl::DeadlineExceededError("no hello came");
  } else {
    status = conversation.Greet(message);
  }
  if (status.ok()) {
    writer = std::thread([&] { Write(*session, *stream); });
    while (status.ok() && !core_.stopping() && stream->Read(&message)) {
      core_.fleet().Hear(session, core_.Now(), /*busy=*/true);
      status = conversation.Handle(message);
      core_.fleet().Hear(session, core_.Now(), /*busy=*/false);
    }
    spdlog::info("worker disconnected worker={} why=\"{}\"", conversation.worker(),
                 status.ok() ? "its stream ended" : Text(status));
  } else {
    spdlog::warn("worker refused worker={} why=\"{}\"", conversation.worker(), Text(status));
  }
  core_.fleet().Leave(session);
  session->Close();
  if (writer.joinable()) writer.join();
  if (status.ok() && core_.stopping()) {
    status = absl::UnavailableError("the coordinator is shutting down");
  }
  return service::ToGrpc(status);
}

}  // namespace lcab::coordinator
