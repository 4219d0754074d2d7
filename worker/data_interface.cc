#include "worker/data_interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <set>

#include "worker/file_descriptor.h"

namespace lcab::worker {
namespace {

std::set<std::string> InterfacesWithAddress() {
  std::set<std::string> names;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return names;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    if (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6) {
      names.insert(at->ifa_name);
    }
  }
  freeifaddrs(all);
  return names;
}

// Whether a socket of this host can be bound to it.
bool IsOwnAddress(const std::string& host) {
  const addrinfo hints{.ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool binds = false;
  for (const addrinfo* at = found; at != nullptr && !binds; at = at->ai_next) {
    const FileDescriptor fd(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    binds = fd.valid() && bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0;
  }
  freeaddrinfo(found);
  return binds;
}

}  // namespace

absl::Status CheckDataInterface(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  const std::set<std::string> interfaces = InterfacesWithAddress();
  if (interfaces.count(name) > 0 || IsOwnAddress(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "--data-interface '{}' is neither a network interface of this host with an address nor an "
      "address of it; its interfaces are: {}",
      name, fmt::join(interfaces, ", ")));
}

}  // namespace lcab::worker
