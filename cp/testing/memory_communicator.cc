#include "cp/testing/memory_communicator.h"

#include <algorithm>
#include <atomic>

#include "cp/transports/self_messages.h"
#include "fmt/format.h"

namespace lcab::cp {
namespace {

class MemoryCommunicator : public Communicator {
 public:
  MemoryCommunicator(MemoryHub& hub, int rank) : hub_(hub), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return hub_.ranks(); }

  absl::Status Exchange(std::span<const SendBuffer> sends, std::span<const ReceiveBuffer> receives,
                        absl::Time deadline) override {
    if (absl::Status s = CopyOwnMessages(rank_, sends, receives); !s.ok()) return s;
    for (const SendBuffer& send : sends) {
      if (send.peer == rank_) continue;
      hub_.Send(rank_, send.peer, send.data);
      bytes_sent_ += static_cast<int64_t>(send.data.size());
    }
    for (const ReceiveBuffer& receive : receives) {
      if (receive.peer == rank_) continue;
      absl::Status s = hub_.Receive(receive.peer, rank_, receive.data, deadline);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Barrier(absl::Time deadline) override {
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer != rank_) hub_.Send(rank_, peer, {});
    }
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank_) continue;
      if (absl::Status s = hub_.Receive(peer, rank_, {}, deadline); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void Abort(std::string_view reason) override { hub_.Abort(reason); }
  int64_t bytes_sent() const override { return bytes_sent_; }
  void ResetBytesSent() override { bytes_sent_ = 0; }

 private:
  MemoryHub& hub_;
  const int rank_;
  std::atomic<int64_t> bytes_sent_{0};
};

}  // namespace

std::unique_ptr<Communicator> MemoryHub::Join(int rank) {
  return std::make_unique<MemoryCommunicator>(*this, rank);
}

void MemoryHub::Send(int from, int to, std::span<const std::byte> data) {
  const std::lock_guard lock(mutex_);
  boxes_[{from, to}].emplace_back(data.begin(), data.end());
  changed_.notify_all();
}

absl::Status MemoryHub::Receive(int from, int to, std::span<std::byte> data, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  auto& box = boxes_[{from, to}];
  const bool ready = changed_.wait_until(lock, absl::ToChronoTime(deadline),
                                         [&] { return abort_reason_ || !box.empty(); });
  if (abort_reason_) return absl::AbortedError(*abort_reason_);
  if (!ready) {
    return absl::DeadlineExceededError(fmt::format("rank {} waited for rank {}", to, from));
  }
  const std::vector<std::byte> message = std::move(box.front());
  box.pop_front();
  if (message.size() != data.size()) {
    return absl::InternalError(fmt::format("rank {} expects {} bytes of rank {} and gets {}", to,
                                           data.size(), from, message.size()));
  }
  std::copy(message.begin(), message.end(), data.begin());
  return absl::OkStatus();
}

void MemoryHub::Abort(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
  changed_.notify_all();
}

}  // namespace lcab::cp
