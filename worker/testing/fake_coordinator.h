// A coordinator for tests of the worker: greets, records what workers say, acknowledges when told
// to, and says what the test tells it to.

#ifndef LCAB_WORKER_TESTING_FAKE_COORDINATOR_H_
#define LCAB_WORKER_TESTING_FAKE_COORDINATOR_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "lcab/v1/fleet.grpc.pb.h"
#include "proto/proto_time.h"
#include "service/grpc_options.h"

namespace lcab::worker {

class FakeCoordinator : public v1::WorkerStream::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::ToWorker, v1::FromWorker>;

  explicit FakeCoordinator(std::string address) : address_(std::move(address)) { Listen(); }
  ~FakeCoordinator() override { Stop(); }

  // As after a crash: streams break, nothing is remembered but what was recorded here.
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(absl::ToChronoTime(absl::Now()));
    server_->Wait();
    server_.reset();
  }
  void Listen() {
    grpc::ServerBuilder builder;
    service::ApplyGrpcOptions(builder);
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  void SetAcknowledging(bool acknowledging) {
    const std::lock_guard lock(mutex_);
    acknowledging_ = acknowledging;
  }
  void SetAbandoned(std::vector<std::string> names) {
    const std::lock_guard lock(mutex_);
    abandoned_ = std::move(names);
  }
  // To the worker that is connected now.
  void Send(const v1::ToWorker& message) {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) stream_->Write(message);
  }

  // Waits until what was received satisfies the predicate.
  using Predicate = std::function<bool(const std::vector<v1::FromWorker>&)>;
  bool WaitFor(const Predicate& predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, absl::ToChronoTime(absl::Now() + absl::Seconds(30)),
                               [&] { return predicate(received_); });
  }
  std::vector<v1::FromWorker> received() {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    received_.clear();
  }

  grpc::Status Connect(grpc::ServerContext*, Stream* stream) override {
    v1::FromWorker message;
    while (stream->Read(&message)) {
      const std::lock_guard lock(mutex_);
      received_.push_back(message);
      if (message.has_hello()) {
        stream_ = stream;
        v1::ToWorker welcome;
        *welcome.mutable_welcome()->mutable_heartbeat_interval() = ToProto(absl::Milliseconds(100));
        for (const std::string& name : abandoned_) welcome.mutable_welcome()->add_abandon(name);
        stream->Write(welcome);
      }
      if (message.has_event() && acknowledging_) {
        v1::ToWorker acknowledge;
        acknowledge.mutable_acknowledge()->set_incarnation(message.event().incarnation());
        acknowledge.mutable_acknowledge()->set_sequence(message.event().sequence());
        stream->Write(acknowledge);
      }
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    if (stream_ == stream) stream_ = nullptr;
    return grpc::Status::OK;
  }

 private:
  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool acknowledging_ = true;
  std::vector<std::string> abandoned_;
  std::vector<v1::FromWorker> received_;
  Stream* stream_ = nullptr;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_TESTING_FAKE_COORDINATOR_H_
