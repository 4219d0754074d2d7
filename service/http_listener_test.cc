#include "service/http_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"

namespace lcab::service {
namespace {

// A client's end of a connection.
class Connection {
 public:
  explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(socket_); }

  // Whether the other end takes it.
  bool Send(std::string_view text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Whether the other end ends it until then.
  bool WaitForEnd(absl::Time deadline) const {
    while (true) {
      const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
      pollfd waited{.fd = socket_, .events = POLLIN, .revents = 0};
      if (poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) return false;
      char byte = 0;
      if (recv(socket_, &byte, 1, 0) <= 0) return true;
    }
  }

 private:
  const int socket_;
};

std::vector<std::unique_ptr<Connection>> Connect(int count, int port) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (int n = 0; n < count; ++n) connections.push_back(std::make_unique<Connection>(port));
  return connections;
}

// Seconds until /healthz answered "ok"; more than any limit when it did not.
double HealthSeconds(int port) {
  httplib::Client client("127.0.0.1", port);
  client.set_connection_timeout(5);
  client.set_read_timeout(10);
  const absl::Time begin = absl::Now();
  const auto reply = client.Get("/healthz");
  if (!reply || reply->body != "ok\n") return 1e9;
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

TEST(HttpListener, HealthIsAnsweredWithinTwoSecondsUnderSilentAndDrippingConnections) {
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int port = (*listener)->port();
  const auto silent = Connect(50, port);
  std::atomic<bool> over = false;
  std::thread dripper([&] {
    auto dripping = Connect(20, port);
    for (const auto& connection : dripping) connection->Send("GET /healthz HTTP/1.1\r\nX: ");
    while (!over) {
      for (auto& connection : dripping) {
        // One that was closed comes back.
        if (connection->WaitForEnd(absl::Now() + absl::Milliseconds(5)) || !connection->Send("a")) {
          connection = std::make_unique<Connection>(port);
          connection->Send("GET /healthz HTTP/1.1\r\nX: ");
        }
      }
    }
  });
  const absl::Time end = absl::Now() + absl::Seconds(4);
  while (absl::Now() < end) EXPECT_LT(HealthSeconds(port), 2);
  over = true;
  dripper.join();
}

TEST(HttpListener, ARequestThatDripsIsEndedAlthoughEachByteComesInTime) {
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const Connection dripping((*listener)->port());
  const absl::Time begin = absl::Now();
  const absl::Time deadline = begin + absl::Seconds(8);
  dripping.Send("GET /healthz HTTP/1.1\r\nX: ");
  bool ended = false;
  while (!ended && absl::Now() < deadline) {
    ended = dripping.WaitForEnd(absl::Now() + absl::Milliseconds(200)) || !dripping.Send("a");
  }
  EXPECT_TRUE(ended);
  EXPECT_GE(absl::Now() - begin, absl::Seconds(1));  // one over a slow line has time
}

TEST(HttpListener, MoreConnectionsThanThereAreThreadsMakeRoomForAProbe) {
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto silent = Connect(300, (*listener)->port());
  EXPECT_LT(HealthSeconds((*listener)->port()), 1);  // before any of them is out of time
  // The oldest made room.
  EXPECT_TRUE(silent.front()->WaitForEnd(absl::Now()));
}

TEST(HttpListener, ARequestOfMoreBytesThanAProbeNeedsIsEnded) {
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const Connection flood((*listener)->port());
  flood.Send("GET /healthz HTTP/1.1\r\n");
  const std::string header = "X: " + std::string(1000, 'a') + "\r\n";
  bool taken = true;
  int sent = 0;
  for (; taken && sent < 100'000; ++sent) taken = flood.Send(header);
  EXPECT_LT(sent, 100'000);
}

TEST(HttpListener, AConnectionIsForOneRequest) {
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const Connection connection((*listener)->port());
  const absl::Time begin = absl::Now();
  connection.Send("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(connection.WaitForEnd(begin + absl::Seconds(10)));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
}

TEST(HttpListener, ItStopsAtOnceWithSilentConnections) {
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto silent = Connect(10, (*listener)->port());
  ASSERT_LT(HealthSeconds((*listener)->port()), 2);  // accepted, all
  const absl::Time begin = absl::Now();
  listener->reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
}

TEST(HttpListener, AnOpenPortIsTakenAndWhoConnectsIsAnsweredOnceItServes) {
  auto listener = HttpListener::Open("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string address = "127.0.0.1:" + std::to_string((*listener)->port());
  EXPECT_FALSE(HttpListener::Open(address).ok());
  const Connection early((*listener)->port());
  early.Send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  (*listener)->Serve(nullptr, nullptr);
  EXPECT_TRUE(early.WaitForEnd(absl::Now() + absl::Seconds(10)));
  listener->reset();
  EXPECT_TRUE(HttpListener::Open(address).ok());
  EXPECT_TRUE(HttpListener::Open(address).ok());  // one that never served let go of it
}

TEST(HttpListener, MetricsAreTheRegistrysInPrometheusText) {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter()
      .Name("lcab_tests_total")
      .Help("Counts this test.")
      .Register(*registry)
      .Add({})
      .Increment(3);
  auto listener = HttpListener::Start({.address = "127.0.0.1:0", .metrics = registry});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto reply = httplib::Client("127.0.0.1", (*listener)->port()).Get("/metrics");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_NE(reply->body.find("# TYPE lcab_tests_total counter\nlcab_tests_total 3"),
            std::string::npos)
      << reply->body;
}

TEST(HttpListener, HealthIs503WithTheReasonWhenItIsNotOk) {
  std::atomic<bool> well = true;
  auto listener = HttpListener::Start({.address = "127.0.0.1:0", .health = [&] {
                                         return well ? absl::OkStatus()
                                                     : absl::UnavailableError("main loop stopped");
                                       }});
  ASSERT_TRUE(listener.ok()) << listener.status();
  httplib::Client client("127.0.0.1", (*listener)->port());
  auto reply = client.Get("/healthz");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  well = false;
  reply = client.Get("/healthz");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->body, "main loop stopped\n");
}

TEST(HttpListener, APortThatIsTakenIsAnErrorThatSaysWhatToDo) {
  auto first = HttpListener::Start({.address = "127.0.0.1:0"});
  ASSERT_TRUE(first.ok());
  auto second = HttpListener::Start({.address = "127.0.0.1:" + std::to_string((*first)->port())});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("--metrics-listen"), std::string::npos);
}

TEST(ParseHostPort, TakesNamesAndBothFamilies) {
  EXPECT_EQ(ParseHostPort("127.0.0.1:7750")->port, 7750);
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort("node-3:0")->host, "node-3");
}

TEST(ParseHostPort, RefusesWhatIsNoAddress) {
  for (const char* text :
       {"", "host", "host:", ":1", "host:65536", "host:-1", "host:1x", "::1:80"}) {
    EXPECT_EQ(ParseHostPort(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace lcab::service
