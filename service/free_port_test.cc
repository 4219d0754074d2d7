#include "service/free_port.h"

#include "gtest/gtest.h"

namespace lcab::service {
namespace {

TEST(CheckPortIsFree, APortIsFreeOnceItsListenerIsGone) {
  auto listener = HttpListener::Open("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  const HostPort address{.host = "127.0.0.1", .port = (*listener)->port()};
  EXPECT_EQ(CheckPortIsFree(address).code(), absl::StatusCode::kUnavailable);
  listener->reset();
  EXPECT_TRUE(CheckPortIsFree(address).ok());
}

TEST(CheckPortIsFree, AnotherMachinesAddressIsRefused) {
  // RFC 5737: an address for documentation, of no machine.
  EXPECT_EQ(CheckPortIsFree({.host = "192.0.2.1", .port = 0}).code(),
            absl::StatusCode::kUnavailable);
}

TEST(CheckPortIsFree, AnyPortIsFree) {
  EXPECT_TRUE(CheckPortIsFree({.host = "127.0.0.1", .port = 0}).ok());
}

}  // namespace
}  // namespace lcab::service
