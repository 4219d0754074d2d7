// The plaintext HTTP listener of a daemon: /metrics for Prometheus, /healthz for probes. It has
// threads of its own, so it answers whatever the daemon's other threads are doing. A connection is
// for one request, which has two seconds to arrive.
//
//   auto listener = HttpListener::Start({.address = "127.0.0.1:0", .metrics = registry}).value();
//   fmt::print("metrics at http://127.0.0.1:{}/metrics\n", listener->port());

#ifndef LCAB_SERVICE_HTTP_LISTENER_H_
#define LCAB_SERVICE_HTTP_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace lcab::service {

// Host and port of an address as people write it: "127.0.0.1:7750", "[::1]:7750", "host:0".
struct HostPort {
  std::string host;
  int port = 0;
};

// InvalidArgument says what is wrong and shows a right one.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

struct HttpListenerOptions {
  std::string address;  // "host:port"; port 0: any free one
  std::shared_ptr<prometheus::Collectable> metrics;
  // Not ok: /healthz answers 503 with the message. Called from the listener's threads; it must take
  // no lock that is held while trials run. Empty: always ok.
  std::function<absl::Status()> health;
};

class HttpListener {
 public:
  // Open and Serve in one. Unavailable when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(HttpListenerOptions options);
  // Takes the port and keeps it; who connects waits until Serve. For daemons, to learn that a port
  // is taken before they begin anything.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Open(const std::string& address);
  // Once, after Open. Arguments as in HttpListenerOptions.
  void Serve(std::shared_ptr<prometheus::Collectable> metrics,
             std::function<absl::Status()> health);
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;
  ~HttpListener();  // stops and joins

  int port() const;

 private:
  HttpListener();
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace lcab::service

#endif  // LCAB_SERVICE_HTTP_LISTENER_H_
