// A worker that a test speaks for, on a real stream to a real coordinator.

#ifndef LCAB_COORDINATOR_TEST_WORKER_H_
#define LCAB_COORDINATOR_TEST_WORKER_H_

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "lcab/v1/fleet.grpc.pb.h"
#include "service/grpc_options.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {

inline std::shared_ptr<grpc::Channel> MakeTestChannel(const std::string& address) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   service::MakeChannelArguments());
}

// Every wait of a test: long enough for a loaded machine, and an end for one that hangs.
inline constexpr absl::Duration kTestPatience = absl::Seconds(20);

class TestWorker {
 public:
  struct Options {
    std::string id = "w1";
    int devices = 1;
    std::set<std::string> kernels = {"tiled", "ref"};
    std::string incarnation = "1";
    std::vector<std::string> running;
    int protocol = 1;
  };

  // Connects and says hello; Beat makes it a worker that is given work.
  TestWorker(const std::string& address, Options options)
      : options_(std::move(options)),
        channel_(MakeTestChannel(address)),
        stub_(v1::WorkerStream::NewStub(channel_)),
        stream_(stub_->Connect(&context_)),
        reader_([this] { Read(); }) {
    v1::FromWorker message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_worker_id(options_.id);
    hello.set_incarnation(options_.incarnation);
    hello.set_protocol(options_.protocol);
    for (int i = 0; i < options_.devices; ++i) {
      v1::Device& device = *hello.add_devices();
      device.set_id(fmt::format("cpu:{}", i));
      device.set_kind("cpu");
      device.set_model("epyc");
    }
    for (const std::string& name : options_.kernels) {
      v1::KernelInfo& kernel = *hello.add_kernels();
      kernel.set_name(name);
      kernel.set_device_kind("cpu");
    }
    for (const std::string& name : options_.running) hello.add_assignments(name);
    stream_->Write(message);
  }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;
  ~TestWorker() {
    context_.TryCancel();
    reader_.join();
  }

  void Beat(const std::vector<std::string>& running = {}) {
    v1::FromWorker message;
    message.mutable_heartbeat();
    for (const std::string& name : running) message.mutable_heartbeat()->add_assignments(name);
    stream_->Write(message);
  }

  // The first message received, and not taken before, that fits.
  std::optional<v1::ToWorker> Take(const std::function<bool(const v1::ToWorker&)>& fits,
                                   absl::Duration patience = kTestPatience) {
    std::unique_lock lock(mutex_);
    auto found = received_.end();
    changed_.wait_for(lock, absl::ToChronoMilliseconds(patience), [&] {
      found = std::find_if(received_.begin(), received_.end(), fits);
      return found != received_.end() || status_.has_value();
    });
    if (found == received_.end()) return std::nullopt;
    v1::ToWorker message = *found;
    received_.erase(found);
    return message;
  }
  v1::Welcome TakeWelcome() {
    const auto message = Take([](const v1::ToWorker& m) { return m.has_welcome(); });
    EXPECT_TRUE(message.has_value()) << "no welcome came";
    return message.has_value() ? message->welcome() : v1::Welcome();
  }
  v1::Assign TakeAssign() {
    const auto message = Take([](const v1::ToWorker& m) { return m.has_assign(); });
    EXPECT_TRUE(message.has_value()) << "no assignment came";
    return message.has_value() ? message->assign() : v1::Assign();
  }
  bool TakeCancel(const std::string& assignment) {
    return Take([&](const v1::ToWorker& m) {
             return m.has_cancel() && m.cancel().assignment() == assignment;
           })
        .has_value();
  }
  // Sends an event and waits until it is acknowledged; false when the stream ends first.
  bool Tell(v1::AssignmentEvent event) {
    event.set_incarnation(options_.incarnation);
    event.set_sequence(++sequence_);
    return TellAgain(event);
  }
  bool TellAgain(const v1::AssignmentEvent& event) {
    Send(event);
    return Take([&](const v1::ToWorker& m) {
             return m.has_acknowledge() && m.acknowledge().incarnation() == event.incarnation() &&
                    m.acknowledge().sequence() >= event.sequence();
           })
        .has_value();
  }
  void Send(const v1::AssignmentEvent& event) {
    v1::FromWorker message;
    *message.mutable_event() = event;
    stream_->Write(message);
  }
  void Put(const std::string& assignment, const std::string& key, const std::string& value) {
    v1::FromWorker message;
    message.mutable_put()->set_assignment(assignment);
    message.mutable_put()->mutable_put()->set_key(key);
    message.mutable_put()->mutable_put()->set_value(value);
    stream_->Write(message);
  }
  void Get(const std::string& assignment, int rank, int64_t request, const std::string& key,
           int64_t timeout_seconds) {
    v1::FromWorker message;
    message.mutable_get()->set_assignment(assignment);
    message.mutable_get()->set_rank(rank);
    message.mutable_get()->mutable_get()->set_request(request);
    message.mutable_get()->mutable_get()->set_key(key);
    message.mutable_get()->mutable_get()->mutable_timeout()->set_seconds(timeout_seconds);
    stream_->Write(message);
  }
  v1::RendezvousValue TakeValue(int64_t request) {
    const auto message = Take([&](const v1::ToWorker& m) {
      return m.has_value() && m.value().value().request() == request;
    });
    EXPECT_TRUE(message.has_value()) << "no value came";
    return message.has_value() ? message->value().value() : v1::RendezvousValue();
  }

  // How the stream ended, waiting for it.
  absl::Status End() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, absl::ToChronoMilliseconds(kTestPatience),
                           [this] { return status_.has_value(); })) {
      return absl::DeadlineExceededError("the stream has not ended");
    }
    return *status_;
  }

 private:
  void Read() {
    v1::ToWorker message;
    while (stream_->Read(&message)) {
      const std::lock_guard lock(mutex_);
      received_.push_back(message);
      changed_.notify_all();
    }
    const absl::Status status = service::FromGrpc(stream_->Finish());
    const std::lock_guard lock(mutex_);
    status_ = status;
    changed_.notify_all();
  }

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerStream::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::FromWorker, v1::ToWorker>> stream_;
  int64_t sequence_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<v1::ToWorker> received_;
  std::optional<absl::Status> status_;
  std::thread reader_;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_TEST_WORKER_H_
