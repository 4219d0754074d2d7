#include "service/http_connections.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"

namespace lcab::service {
namespace {

// How often a full house is asked for room.
constexpr std::chrono::milliseconds kRoomInterval{50};

using AddressOf = int (*)(int, sockaddr*, socklen_t*);

void Describe(int socket, AddressOf address_of, std::string& ip, int& port) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (address_of(socket, generic, &size) != 0 ||
      getnameinfo(generic, size, host.data(), host.size(), service.data(), service.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host.data();
  port = std::atoi(service.data());
}

// A socket whose reads have one deadline together, and its writes another.
class LimitedStream : public httplib::Stream {
 public:
  LimitedStream(int socket, const ConnectionLimits& limits)
      : socket_(socket), limits_(limits), read_deadline_(absl::Now() + limits.read) {}

  bool is_readable() const override { return begin_ < end_ || WaitFor(POLLIN, read_deadline_); }
  bool is_writable() const override {
    return WaitFor(POLLOUT, write_deadline_.value_or(absl::Now() + limits_.write));
  }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_ && !Fill()) return -1;
    const size_t count = std::min(size, end_ - begin_);
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    if (!write_deadline_.has_value()) write_deadline_ = absl::Now() + limits_.write;
    while (WaitFor(POLLOUT, *write_deadline_)) {
      const ssize_t count = send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count >= 0 || !IsPassing(errno)) return count;
    }
    return -1;
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    Describe(socket_, getpeername, ip, port);
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    Describe(socket_, getsockname, ip, port);
  }
  socket_t socket() const override { return socket_; }

 private:
  static bool IsPassing(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  }

  bool WaitFor(short event, absl::Time deadline) const {
    while (true) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return false;
      pollfd waited{.fd = socket_, .events = event, .revents = 0};
      // Rounded up, or the last millisecond would be spent spinning.
      const int ready = poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(left) + 1));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

  bool Fill() {
    const size_t most = std::min(buffer_.size(), limits_.read_bytes - received_);
    if (most == 0) return false;
    while (WaitFor(POLLIN, read_deadline_)) {
      const ssize_t count = recv(socket_, buffer_.data(), most, MSG_DONTWAIT);
      if (count < 0 && IsPassing(errno)) continue;
      if (count <= 0) return false;
      begin_ = 0;
      end_ = static_cast<size_t>(count);
      received_ += end_;
      return true;
    }
    return false;
  }

  const int socket_;
  const ConnectionLimits limits_;
  const absl::Time read_deadline_;
  std::optional<absl::Time> write_deadline_;
  std::array<char, 4096> buffer_{};
  size_t begin_ = 0;  // of what is received and not read
  size_t end_ = 0;
  size_t received_ = 0;
};

}  // namespace

void OpenSockets::Add(int socket) {
  const std::lock_guard lock(mutex_);
  sockets_.push_back(socket);
  if (stopped_) ::shutdown(socket, SHUT_RD);
}

void OpenSockets::Remove(int socket) {
  const std::lock_guard lock(mutex_);
  sockets_.remove(socket);
}

void OpenSockets::EndOldest() {
  const std::lock_guard lock(mutex_);
  if (sockets_.empty()) return;
  ::shutdown(sockets_.front(), SHUT_RDWR);
  sockets_.pop_front();
}

void OpenSockets::StopReading() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const int socket : sockets_) ::shutdown(socket, SHUT_RD);
}

void ConnectionThreads::enqueue(std::function<void()> connection) {
  std::unique_lock lock(mutex_);
  while (in_progress_ >= most_) {
    sockets_.EndOldest();
    // Again after a while: the one that was ended may be busy with something else than its socket.
    ended_.wait_for(lock, kRoomInterval, [this] { return in_progress_ < most_; });
  }
  ++in_progress_;
  waiting_.push(std::move(connection));
  if (in_progress_ > static_cast<int>(threads_.size())) {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // The machine has no thread left: those that there are get to it.
    }
  }
  given_.notify_one();
}

void ConnectionThreads::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> connection = std::move(waiting_.front());
    waiting_.pop();
    lock.unlock();
    connection();
    lock.lock();
    --in_progress_;
    ended_.notify_one();
  }
}

void ConnectionThreads::shutdown() {
  sockets_.StopReading();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  given_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

LimitedServer::LimitedServer(ConnectionLimits limits) : limits_(limits) {
  // httplib takes ownership of what this returns.
  new_task_queue = [this] {
    return std::make_unique<ConnectionThreads>(limits_.connections, sockets_).release();
  };
}

void LimitedServer::DeepenBacklog() { ::listen(svr_sock_, SOMAXCONN); }

void LimitedServer::CloseUnused() {
  const socket_t socket = svr_sock_.exchange(INVALID_SOCKET);
  if (socket != INVALID_SOCKET) close(socket);
}

bool LimitedServer::process_and_close_socket(socket_t socket) {
  sockets_.Add(socket);
  LimitedStream stream(socket, limits_);
  bool connection_closed = false;
  const bool answered =
      process_request(stream, /*close_connection=*/true, connection_closed, nullptr);
  sockets_.Remove(socket);
  ::shutdown(socket, SHUT_RDWR);
  close(socket);
  return answered;
}

}  // namespace lcab::service
