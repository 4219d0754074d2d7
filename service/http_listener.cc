#include "service/http_listener.h"

#include <sys/socket.h>

#include <charconv>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "prometheus/text_serializer.h"
#include "service/http_connections.h"

namespace lcab::service {
namespace {

std::string Serialize(prometheus::Collectable& metrics) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics.Collect());
  return std::move(text).str();
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const auto wrong = [text](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("address '{}' {}; write host:port, as in 127.0.0.1:7750", text, what));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("has several colons (an IPv6 address stands in brackets)");
  }
  if (host.empty()) return wrong("has no host");
  HostPort result{.host = std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size() || result.port < 0 ||
      result.port > 65535) {
    return wrong("has no port between 0 and 65535");
  }
  return result;
}

struct HttpListener::Server {
  LimitedServer http{ConnectionLimits{}};
  std::thread thread;
  int port = 0;
};

HttpListener::HttpListener() : server_(std::make_unique<Server>()) {}

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(HttpListenerOptions options) {
  auto listener = Open(options.address);
  if (listener.ok()) (*listener)->Serve(std::move(options.metrics), std::move(options.health));
  return listener;
}

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Open(const std::string& text) {
  absl::StatusOr<HostPort> address = ParseHostPort(text);
  if (!address.ok()) return address.status();

  std::unique_ptr<HttpListener> listener(new HttpListener);
  Server& server = *listener->server_;
  // httplib's default, SO_REUSEPORT, lets two daemons share a port and half of the scrapes each.
  server.http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  if (address->port == 0) {
    server.port = server.http.bind_to_any_port(address->host);
  } else {
    server.port = server.http.bind_to_port(address->host, address->port) ? address->port : -1;
  }
  if (server.port <= 0) {
    return absl::UnavailableError(
        fmt::format("cannot listen on {} for metrics: the port is taken or the host is not one of "
                    "this machine; choose another with --metrics-listen",
                    text));
  }
  server.http.DeepenBacklog();
  return listener;
}

void HttpListener::Serve(std::shared_ptr<prometheus::Collectable> metrics,
                         std::function<absl::Status()> health) {
  Server& server = *server_;
  server.http.Get("/metrics", [metrics = std::move(metrics)](const httplib::Request&,
                                                             httplib::Response& response) {
    response.set_content(metrics == nullptr ? std::string() : Serialize(*metrics),
                         "text/plain; version=0.0.4; charset=utf-8");
  });
  server.http.Get("/healthz", [health = std::move(health)](const httplib::Request&,
                                                           httplib::Response& response) {
    const absl::Status status = health ? health() : absl::OkStatus();
    if (!status.ok()) response.status = 503;
    response.set_content(status.ok()
                             ? "ok\n"
                             : fmt::format("{}\n", std::string_view(status.message().data(),
                                                                    status.message().size())),
                         "text/plain; charset=utf-8");
  });
  server.thread = std::thread([&server] { server.http.listen_after_bind(); });
  // A stop() that comes before the loop runs would be lost, and the destructor would wait for ever.
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (!server.http.is_running() && absl::Now() < deadline) std::this_thread::yield();
}

HttpListener::~HttpListener() {
  if (!server_->thread.joinable()) {
    server_->http.CloseUnused();
    return;
  }
  server_->http.stop();
  server_->thread.join();
}

int HttpListener::port() const { return server_->port; }

}  // namespace lcab::service
