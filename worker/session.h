// The stream that a worker keeps with its coordinator: hello, events, rendezvous and heartbeats one
// way, assignments and acknowledgements the other. It connects again for as long as it lives.
//
// One thread connects and writes, one reads. Neither touches what runners use, so a busy worker's
// heartbeats are on time.

#ifndef LCAB_WORKER_SESSION_H_
#define LCAB_WORKER_SESSION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "lcab/v1/fleet.grpc.pb.h"
#include "lcab/v1/fleet.pb.h"
#include "worker/outbox.h"

namespace lcab::worker {

class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  // Called from the writing thread. Both are quick.
  virtual v1::Hello MakeHello() = 0;
  virtual v1::Heartbeat MakeHeartbeat() = 0;
  // A new connection stands; before anything else of it. From the writing thread.
  virtual void OnWelcome(const v1::Welcome& welcome) = 0;
  // That connection has ended, and nothing more comes of it. From the writing thread.
  virtual void OnDisconnect() = 0;
  // Everything but welcomes and acknowledgements. From the reading thread.
  virtual void OnMessage(const v1::ToWorker& message) = 0;
};

struct SessionOptions {
  std::string coordinator;  // "host:port" or "unix:/path"
  absl::Duration first_backoff = absl::Milliseconds(100);
  absl::Duration longest_backoff = absl::Seconds(5);
  absl::Duration welcome_timeout = absl::Seconds(10);
};

class Session {
 public:
  // The outbox and the handler outlive it.
  Session(SessionOptions options, Outbox& outbox, SessionHandler& handler);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Begins to connect. The handler is called from here on.
  void Start();
  // Puts and gets. Dropped when there is no connection: they are sent again on the next.
  void Relay(v1::FromWorker message);
  // The outbox has something new.
  void Wake();
  // Sends a heartbeat now: something changed that the coordinator should know.
  void Heartbeat();
  // Waits until all events are acknowledged; false when the time is over before.
  bool Flush(absl::Time deadline);

  bool connected() const { return connected_; }
  int64_t connections() const { return connections_; }

 private:
  using Stream = grpc::ClientReaderWriter<v1::FromWorker, v1::ToWorker>;

  void Run();
  // One connection, until it breaks. False: it came to nothing.
  bool Connect();
  void Read(Stream& stream);
  bool AwaitWelcome(v1::Welcome& welcome);
  void Write(Stream& stream, absl::Duration heartbeat_interval);
  void ReportOutage(const std::string& why);

  const SessionOptions options_;
  Outbox& outbox_;
  SessionHandler& handler_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::WorkerStream::Stub> stub_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool woken_ = false;
  bool heartbeat_due_ = false;
  bool broken_ = false;    // the current stream has ended
  bool welcomed_ = false;  // it has been greeted
  v1::Welcome welcome_;
  grpc::ClientContext* context_ = nullptr;  // of the current stream
  std::deque<v1::FromWorker> relay_;

  std::atomic<bool> connected_ = false;
  std::atomic<int64_t> connections_ = 0;
  std::string outage_;  // what was told last, of the writing thread
  std::thread thread_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_SESSION_H_
