#include "service/http_listener.h"

#include <atomic>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "httplib.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"

namespace lcab::service {
namespace {

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
