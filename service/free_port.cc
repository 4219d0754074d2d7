#include "service/free_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "fmt/format.h"

namespace lcab::service {
namespace {

// 0, or why it cannot be bound. Nobody can connect to what only is bound.
int TryToBind(const addrinfo& address) {
  const int tried =
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (tried < 0) return errno;
  const int yes = 1;
  // As the listeners do: what lingers of a daemon that has ended does not count.
  setsockopt(tried, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const int error = bind(tried, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  close(tried);
  return error;
}

}  // namespace

absl::Status CheckPortIsFree(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) !=
      0) {
    return absl::OkStatus();
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  int refusal = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int error = TryToBind(*each);
    if (error == 0) return absl::OkStatus();
    if (error == EADDRINUSE || error == EADDRNOTAVAIL) refusal = error;
  }
  if (refusal == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot listen on port {} of {}: {}", address.port,
                                            address.host, std::strerror(refusal)));
}

}  // namespace lcab::service
