// The communicator of one rank, and messages to oneself.

#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "cp/transport.h"
#include "cp/transports/self_messages.h"
#include "fmt/format.h"

namespace lcab::cp {

absl::Status CopyOwnMessages(int rank, std::span<const SendBuffer> sends,
                             std::span<const ReceiveBuffer> receives) {
  size_t next = 0;
  const auto find_receive = [&]() -> const ReceiveBuffer* {
    while (next < receives.size() && receives[next].peer != rank) ++next;
    return next < receives.size() ? &receives[next++] : nullptr;
  };
  for (const SendBuffer& send : sends) {
    if (send.peer != rank) continue;
    const ReceiveBuffer* receive = find_receive();
    if (receive == nullptr || receive->data.size() != send.data.size()) {
      return absl::InvalidArgumentError(
          fmt::format("rank {} sends itself {} bytes and receives {}", rank, send.data.size(),
                      receive == nullptr ? "nothing" : std::to_string(receive->data.size())));
    }
    std::memmove(receive->data.data(), send.data.data(), send.data.size());
  }
  if (find_receive() == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("rank {} receives from itself what it does not send", rank));
}

namespace {

class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }

  absl::Status Exchange(std::span<const SendBuffer> sends, std::span<const ReceiveBuffer> receives,
                        absl::Time) override {
    if (absl::Status s = Barrier({}); !s.ok()) return s;
    for (const SendBuffer& send : sends) {
      if (send.peer != 0) return NoSuchPeer(send.peer);
    }
    for (const ReceiveBuffer& receive : receives) {
      if (receive.peer != 0) return NoSuchPeer(receive.peer);
    }
    return CopyOwnMessages(0, sends, receives);
  }
  absl::Status Barrier(absl::Time) override {
    const std::lock_guard lock(mutex_);
    return abort_reason_ ? absl::AbortedError(*abort_reason_) : absl::OkStatus();
  }
  void Abort(std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_) abort_reason_ = reason;
  }

  int64_t bytes_sent() const override { return 0; }
  void ResetBytesSent() override {}

 private:
  static absl::Status NoSuchPeer(int peer) {
    return absl::InvalidArgumentError(
        fmt::format("a communicator of one rank has no rank {}", peer));
  }

  std::mutex mutex_;
  std::optional<std::string> abort_reason_;  // guarded
};

}  // namespace

std::unique_ptr<Communicator> MakeSingleCommunicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace lcab::cp
