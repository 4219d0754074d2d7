#include "worker/session.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "proto/proto_time.h"
#include "service/grpc_options.h"

namespace lcab::worker {
namespace {

constexpr absl::Duration kDefaultHeartbeat = absl::Seconds(5);
// So that a stop is noticed soon while nobody answers.
constexpr absl::Duration kConnectStep = absl::Milliseconds(500);
// For the coordinator to say why a stream ends.
constexpr absl::Duration kLastWord = absl::Milliseconds(500);

std::shared_ptr<grpc::Channel> MakeChannel(const SessionOptions& options) {
  grpc::ChannelArguments arguments = service::MakeChannelArguments();
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.first_backoff)));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.first_backoff)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.longest_backoff)));
  // A worker of its own has a connection of its own, also within one process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.coordinator, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

Session::Session(SessionOptions options, Outbox& outbox, SessionHandler& handler)
    : options_(std::move(options)),
      outbox_(outbox),
      handler_(handler),
      channel_(MakeChannel(options_)),
      stub_(v1::WorkerStream::NewStub(channel_)) {}

Session::~Session() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Session::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Session::Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    heartbeat_due_ = true;
  }
  changed_.notify_all();
}

void Session::Relay(v1::FromWorker message) {
  {
    const std::lock_guard lock(mutex_);
    if (!welcomed_) return;
    relay_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void Session::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

bool Session::Flush(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, absl::ToChronoTime(deadline),
                             [this] { return outbox_.unacknowledged() == 0; });
}

void Session::Run() {
  absl::Duration backoff = options_.first_backoff;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if (!channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + kConnectStep))) {
      ReportOutage("no connection");
      continue;
    }
    if (Connect()) backoff = options_.first_backoff;
    std::unique_lock lock(mutex_);
    // A coordinator that accepts connections and refuses workers is not asked without pause.
    changed_.wait_for(lock, absl::ToChronoNanoseconds(backoff), [this] { return stopping_; });
    backoff = std::min(2 * backoff, options_.longest_backoff);
  }
}

void Session::ReportOutage(const std::string& why) {
  if (std::exchange(outage_, why) == why) return;
  spdlog::warn(
      "not connected coordinator={} reason=\"{}\"; trying again until it takes this worker",
      options_.coordinator, why);
}

bool Session::Connect() {
  grpc::ClientContext context;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    context_ = &context;
    broken_ = false;
    welcomed_ = false;
    relay_.clear();
  }
  const std::unique_ptr<Stream> stream = stub_->Connect(&context);
  v1::FromWorker hello;
  *hello.mutable_hello() = handler_.MakeHello();
  std::thread reader([this, &stream] { Read(*stream); });
  v1::Welcome welcome;
  const bool greeted = stream->Write(hello) && AwaitWelcome(welcome);
  if (greeted) {
    spdlog::info("connected coordinator={} unacknowledged={}", options_.coordinator,
                 outbox_.unacknowledged());
    outage_.clear();
    ++connections_;
    outbox_.Rewind();
    handler_.OnWelcome(welcome);
    const absl::Duration interval = FromProto(welcome.heartbeat_interval());
    Write(*stream, interval > absl::ZeroDuration() ? interval : kDefaultHeartbeat);
  }
  connected_ = false;
  {
    // A stream that the coordinator has ended carries its reason, which a cancellation would
    // replace.
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, absl::ToChronoTime(absl::Now() + kLastWord),
                        [this] { return broken_ || stopping_; });
    if (!broken_) context.TryCancel();
  }
  reader.join();
  if (greeted) handler_.OnDisconnect();
  const grpc::Status status = stream->Finish();
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
  welcomed_ = false;
  if (!stopping_) {
    if (greeted) {
      spdlog::warn("disconnected coordinator={} code={} reason=\"{}\"", options_.coordinator,
                   static_cast<int>(status.error_code()), status.error_message());
    } else {
      ReportOutage(status.error_message().empty()
                       ? std::string("it gave no welcome in time")
                       : fmt::format("it refused: {}", status.error_message()));
    }
  }
  return greeted;
}

bool Session::AwaitWelcome(v1::Welcome& welcome) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, absl::ToChronoTime(absl::Now() + options_.welcome_timeout),
                      [this] { return welcomed_ || broken_ || stopping_; });
  if (!welcomed_) return false;
  welcome = welcome_;
  return true;
}

void Session::Read(Stream& stream) {
  v1::ToWorker message;
  while (stream.Read(&message)) {
    if (message.has_welcome()) {
      const std::lock_guard lock(mutex_);
      welcome_ = message.welcome();
      welcomed_ = true;
    } else if (message.has_acknowledge()) {
      outbox_.Acknowledge(message.acknowledge().incarnation(), message.acknowledge().sequence());
      // For Flush, which looks under the lock.
      const std::lock_guard lock(mutex_);
    } else {
      handler_.OnMessage(message);
    }
    changed_.notify_all();
  }
  {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  changed_.notify_all();
}

void Session::Write(Stream& stream, absl::Duration heartbeat_interval) {
  absl::Time next_heartbeat = absl::InfinitePast();  // now
  while (true) {
    std::deque<v1::FromWorker> relay;
    {
      std::unique_lock lock(mutex_);
      if (next_heartbeat > absl::InfinitePast()) {
        changed_.wait_until(lock, absl::ToChronoTime(next_heartbeat), [this] {
          return stopping_ || broken_ || woken_ || heartbeat_due_ || !relay_.empty();
        });
      }
      if (stopping_ || broken_) return;
      woken_ = false;
      if (std::exchange(heartbeat_due_, false)) next_heartbeat = absl::InfinitePast();
      relay.swap(relay_);
    }
    for (const v1::FromWorker& message : relay) {
      if (!stream.Write(message)) return;
    }
    while (std::optional<v1::AssignmentEvent> event = outbox_.Next()) {
      v1::FromWorker message;
      *message.mutable_event() = *std::move(event);
      if (!stream.Write(message)) return;
    }
    if (absl::Now() < next_heartbeat) continue;
    v1::FromWorker heartbeat;
    *heartbeat.mutable_heartbeat() = handler_.MakeHeartbeat();
    // The end of an assignment that it does not name any more must be on its way before it.
    if (outbox_.HasNext()) {
      Wake();
      continue;
    }
    if (!stream.Write(heartbeat)) return;
    connected_ = true;
    next_heartbeat = absl::Now() + heartbeat_interval;
  }
}

}  // namespace lcab::worker
