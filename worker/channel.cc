#include "worker/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/time/clock.h"
#include "fmt/format.h"

namespace lcab::worker {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kReadBytes = 64 << 10;

absl::Status Closed() { return absl::UnavailableError("the other side closed the channel"); }
absl::Status WasShutDown() { return absl::CancelledError("the channel was shut down"); }

absl::Status FromErrno(const char* what, int error) {
  if (error == EPIPE || error == ECONNRESET) return Closed();
  return absl::InternalError(fmt::format("channel: cannot {}: {}", what, std::strerror(error)));
}

int PollMilliseconds(absl::Time deadline) {
  const absl::Duration left = deadline - absl::Now();
  if (left <= absl::ZeroDuration()) return 0;
  // Cut before anything is added: an infinite wait is the largest number there is. Rounded up, so
  // that a wait does not spin in its last millisecond.
  return static_cast<int>(absl::ToInt64Milliseconds(std::min(left, absl::Minutes(1))) + 1);
}

}  // namespace

absl::StatusOr<std::pair<FileDescriptor, FileDescriptor>> MakeChannelPair() {
  std::array<int, 2> fds;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return FromErrno("make a socket pair", errno);
  }
  return std::pair(FileDescriptor(fds[0]), FileDescriptor(fds[1]));
}

Channel::Channel(FileDescriptor fd) : fd_(std::move(fd)) {
  fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

absl::Status Channel::Wait(short events, absl::Time deadline, const char* what) const {
  while (true) {
    if (shut_down_) return WasShutDown();
    pollfd entry{.fd = fd_.get(), .events = events, .revents = 0};
    const int ready = poll(&entry, 1, PollMilliseconds(deadline));
    if (ready > 0) return shut_down_ ? WasShutDown() : absl::OkStatus();
    if (ready < 0 && errno != EINTR) return FromErrno("wait", errno);
    if (ready == 0 && absl::Now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format("channel: {} in time", what));
    }
  }
}

absl::Status Channel::Write(const google::protobuf::MessageLite& message, absl::Time deadline) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "channel: a message of {} bytes is longer than the limit of {}", bytes, kMaxMessageBytes));
  }
  std::string frame(kLengthBytes, '\0');
  for (size_t n = 0; n < kLengthBytes; ++n) frame[n] = static_cast<char>(bytes >> (8 * n) & 0xFF);
  if (!message.AppendPartialToString(&frame)) {
    return absl::InternalError("channel: a message cannot be serialised");
  }

  const std::lock_guard lock(write_mutex_);
  if (shut_down_) return WasShutDown();
  if (write_broken_) return Closed();
  size_t sent = 0;
  while (sent < frame.size()) {
    const ssize_t count =
        send(fd_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    absl::Status status = errno == EAGAIN || errno == EWOULDBLOCK
                              ? Wait(POLLOUT, deadline, "the other side did not read")
                              : FromErrno("write", errno);
    if (!status.ok()) {
      write_broken_ = true;
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Channel::TakeMessage(google::protobuf::MessageLite& message) {
  const size_t available = received_.size() - consumed_;
  if (available < kLengthBytes) return false;
  uint32_t bytes = 0;
  for (size_t n = 0; n < kLengthBytes; ++n) {
    bytes |= uint32_t{static_cast<unsigned char>(received_[consumed_ + n])} << (8 * n);
  }
  if (bytes > kMaxMessageBytes) {
    return absl::DataLossError(fmt::format(
        "channel: a message claims {} bytes, above the limit of {}", bytes, kMaxMessageBytes));
  }
  if (available < kLengthBytes + bytes) return false;
  const bool parsed =
      message.ParseFromArray(received_.data() + consumed_ + kLengthBytes, static_cast<int>(bytes));
  consumed_ += kLengthBytes + bytes;
  if (consumed_ == received_.size()) {
    received_.clear();
    consumed_ = 0;
  }
  if (!parsed) {
    return absl::DataLossError(fmt::format("channel: {} bytes are not a message of type {}", bytes,
                                           message.GetTypeName()));
  }
  return true;
}

absl::StatusOr<bool> Channel::TryRead(google::protobuf::MessageLite& message) {
  while (true) {
    absl::StatusOr<bool> taken = TakeMessage(message);
    if (!taken.ok() || *taken) return taken;
    if (shut_down_) return WasShutDown();
    if (consumed_ > 0) {
      received_.erase(0, consumed_);
      consumed_ = 0;
    }
    const size_t before = received_.size();
    received_.resize(before + kReadBytes);
    const ssize_t count = recv(fd_.get(), received_.data() + before, kReadBytes, MSG_DONTWAIT);
    const int error = errno;
    received_.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0) continue;
    if (count == 0) return shut_down_ ? WasShutDown() : Closed();
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    if (error != EINTR) return FromErrno("read", error);
  }
}

absl::Status Channel::Read(google::protobuf::MessageLite& message, absl::Time deadline) {
  while (true) {
    absl::StatusOr<bool> read = TryRead(message);
    if (!read.ok()) return read.status();
    if (*read) return absl::OkStatus();
    absl::Status status = Wait(POLLIN, deadline, "no message came");
    if (!status.ok()) return status;
  }
}

void Channel::Shutdown() {
  shut_down_ = true;
  shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace lcab::worker
