// Connections of the HTTP listener under limits: of time, of bytes, and of number. cpp-httplib
// limits each read only, so a client that sends a byte a second would hold a thread for as long as
// it likes; here a request has one limit as a whole, and the oldest connection makes room for a new
// one when there are too many.

#ifndef LCAB_SERVICE_HTTP_CONNECTIONS_H_
#define LCAB_SERVICE_HTTP_CONNECTIONS_H_

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "httplib.h"

namespace lcab::service {

struct ConnectionLimits {
  int connections = 128;  // in progress; each has a thread
  // Of a request, from the first wait for it to its last byte.
  absl::Duration read = absl::Seconds(2);
  size_t read_bytes = 64 << 10;
  // Of an answer, from its first byte to its last.
  absl::Duration write = absl::Seconds(5);
};

// The sockets in progress, oldest first. Thread-safe.
class OpenSockets {
 public:
  void Add(int socket);
  // Before it is closed: its number may be another's at once.
  void Remove(int socket);
  // Ends both directions of the oldest one: what its thread waits for comes to nothing.
  void EndOldest();
  // Ends all waits for requests, also of sockets that are added later. Answers are still sent.
  void StopReading();

 private:
  std::mutex mutex_;
  std::list<int> sockets_;
  bool stopped_ = false;
};

// httplib's queue: a thread for each connection in progress, kept for those that follow.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  ConnectionThreads(int most, OpenSockets& sockets) : most_(most), sockets_(sockets) {}
  // Waits until there is room.
  void enqueue(std::function<void()> connection) override;
  void shutdown() override;  // joins

 private:
  void Work();

  const int most_;
  OpenSockets& sockets_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::condition_variable ended_;
  std::queue<std::function<void()>> waiting_;
  int in_progress_ = 0;  // with those that wait for a thread
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// httplib's server with one request to a connection, under ConnectionLimits.
class LimitedServer : public httplib::Server {
 public:
  explicit LimitedServer(ConnectionLimits limits);

  // Once it is bound: httplib's queue of five drops some of those that come at once.
  void DeepenBacklog();
  // Of one that was bound and never listened: httplib does not.
  void CloseUnused();

 private:
  bool process_and_close_socket(socket_t socket) override;

  const ConnectionLimits limits_;
  OpenSockets sockets_;
};

}  // namespace lcab::service

#endif  // LCAB_SERVICE_HTTP_CONNECTIONS_H_
