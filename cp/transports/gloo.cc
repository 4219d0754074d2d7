// Communicators over Gloo's TCP transport, which throws: no exception leaves this file.

#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cp/transport.h"
#include "cp/transports/self_messages.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gloo/common/error.h"
#include "gloo/common/logging.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace lcab::cp {
namespace {

using Milliseconds = std::chrono::milliseconds;

// At least one: Gloo reads zero as "no limit".
Milliseconds Until(absl::Time deadline) {
  const absl::Duration left =
      std::min(deadline - absl::Now(), absl::Hours(24 * 365));  // no overflow in Gloo
  return Milliseconds(std::max<int64_t>(1, absl::ToInt64Milliseconds(left)));
}

// Gloo's messages begin with its source file in brackets, which says nothing to a user.
std::string_view Reason(const std::exception& e) {
  std::string_view text = e.what();
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  return text;
}

// Our rendezvous as Gloo's store. Gloo learns of an error by an exception; the status is kept for
// whoever called Gloo.
class RendezvousStore : public gloo::rendezvous::Store {
 public:
  RendezvousStore(Rendezvous& rendezvous, std::string prefix, absl::Time deadline)
      : rendezvous_(rendezvous), prefix_(std::move(prefix)), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Check(rendezvous_.Put(prefix_ + key, std::string_view(data.data(), data.size())));
  }
  std::vector<char> get(const std::string& key) override {
    const absl::StatusOr<std::string> value = rendezvous_.Get(prefix_ + key, deadline_);
    Check(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const Milliseconds&) override { wait(keys); }

  const absl::Status& status() const { return status_; }

 private:
  void Check(const absl::Status& status) {
    if (status.ok()) return;
    status_ = status;
    throw std::runtime_error(std::string(status.message()));
  }

  Rendezvous& rendezvous_;
  const std::string prefix_;
  const absl::Time deadline_;
  absl::Status status_;
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(const CommunicatorOptions& options,
                   std::shared_ptr<gloo::rendezvous::Context> context)
      : rank_(options.rank),
        ranks_(options.ranks),
        name_(options.name),
        context_(std::move(context)),
        next_send_(static_cast<size_t>(options.ranks), 0),
        next_receive_(static_cast<size_t>(options.ranks), 0) {}

  ~GlooCommunicator() override { CloseConnections(); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  absl::Status Exchange(std::span<const SendBuffer> sends, std::span<const ReceiveBuffer> receives,
                        absl::Time deadline) override {
    return DoExchange(sends, receives, deadline, /*count=*/true);
  }

  // Dissemination (Hensgen, Finkel, Manber, 1988): after round k each rank has heard, directly or
  // not, from the 2^(k+1) - 1 before it.
  absl::Status Barrier(absl::Time deadline) override {
    for (int distance = 1; distance < ranks_; distance *= 2) {
      std::byte token{}, heard{};
      const SendBuffer send{(rank_ + distance) % ranks_, {&token, 1}};
      const ReceiveBuffer receive{(rank_ + ranks_ - distance) % ranks_, {&heard, 1}};
      absl::Status s = DoExchange({&send, 1}, {&receive, 1}, deadline, /*count=*/false);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void Abort(std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_) abort_reason_ = reason;
    for (Pending& pending : pending_) pending.AbortWait();
    // Connections stay open until destruction: to a peer, one that closes looks like our death, and
    // it would name the wrong rank.
  }

  int64_t bytes_sent() const override { return bytes_sent_.load(); }
  void ResetBytesSent() override { bytes_sent_ = 0; }

 private:
  struct Pending {
    int peer;
    bool sends;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;

    // False when the wait was aborted.
    bool Wait(Milliseconds timeout) {
      return sends ? buffer->waitSend(timeout) : buffer->waitRecv(timeout);
    }
    void AbortWait() { sends ? buffer->abortWaitSend() : buffer->abortWaitRecv(); }
  };

  absl::Status DoExchange(std::span<const SendBuffer> sends,
                          std::span<const ReceiveBuffer> receives, absl::Time deadline,
                          bool count) {
    for (const SendBuffer& send : sends) {
      if (send.peer < 0 || send.peer >= ranks_) return NoSuchPeer(send.peer);
    }
    for (const ReceiveBuffer& receive : receives) {
      if (receive.peer < 0 || receive.peer >= ranks_) return NoSuchPeer(receive.peer);
    }
    if (absl::Status s = CopyOwnMessages(rank_, sends, receives); !s.ok()) return s;
    int peer = rank_;  // the one that an exception is about
    const absl::Time start = absl::Now();
    try {
      {
        const std::lock_guard lock(mutex_);
        if (abort_reason_) return absl::AbortedError(*abort_reason_);
        for (const ReceiveBuffer& receive : receives) {
          if (receive.peer == rank_ || receive.data.empty()) continue;
          peer = receive.peer;
          Post(peer, false, receive.data.data(), receive.data.size());
        }
        for (const SendBuffer& send : sends) {
          if (send.peer == rank_ || send.data.empty()) continue;
          peer = send.peer;
          // Gloo takes one kind of pointer for both directions; a send only reads.
          Post(peer, true, const_cast<std::byte*>(send.data.data()), send.data.size());
          if (count) bytes_sent_ += static_cast<int64_t>(send.data.size());
        }
      }
      // Only this thread changes the list; Abort() marks its members from another.
      for (Pending& pending : pending_) {
        peer = pending.peer;
        if (!pending.Wait(Until(deadline))) break;
      }
    } catch (const std::exception& e) {
      return Fail(peer, start, deadline, Reason(e));
    }
    const std::lock_guard lock(mutex_);
    pending_.clear();
    if (abort_reason_) return absl::AbortedError(*abort_reason_);
    return absl::OkStatus();
  }

  absl::Status NoSuchPeer(int peer) const {
    return absl::InvalidArgumentError(
        fmt::format("communicator '{}' of {} ranks has no rank {}", name_, ranks_, peer));
  }

  // Slots count the messages between two ranks, so that they match in the order of posting.
  void Post(int peer, bool sends, std::byte* data, size_t bytes) {
    Pending pending{peer, sends, context_->createUnboundBuffer(data, bytes)};
    const auto p = static_cast<size_t>(peer);
    if (sends) {
      pending.buffer->send(peer, next_send_[p]++);
    } else {
      pending.buffer->recv(peer, next_receive_[p]++);
    }
    pending_.push_back(std::move(pending));
  }

  absl::Status Fail(int peer, absl::Time start, absl::Time deadline, std::string_view reason) {
    const std::lock_guard lock(mutex_);
    pending_.clear();
    if (abort_reason_) return absl::AbortedError(*abort_reason_);
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          fmt::format("rank {} waited {} for rank {} on communicator '{}'", rank_,
                      absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Milliseconds(1))),
                      peer, name_));
    }
    return absl::UnavailableError(
        fmt::format("rank {} lost rank {} on communicator '{}': {}", rank_, peer, name_, reason));
  }

  void CloseConnections() {
    try {
      context_->closeConnections();
    } catch (const std::exception&) {
      // A pair that failed before is closed already: there is nothing to do or to tell.
    }
  }

  const int rank_, ranks_;
  const std::string name_;
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<uint64_t> next_send_, next_receive_;  // by peer
  std::atomic<int64_t> bytes_sent_{0};

  std::mutex mutex_;
  std::vector<Pending> pending_;             // guarded, see DoExchange()
  std::optional<std::string> abort_reason_;  // guarded
};

// Says that this rank has come to `stage`, and waits until every rank has.
absl::Status AwaitRanks(const CommunicatorOptions& options, Rendezvous& rendezvous,
                        std::string_view stage, absl::Time deadline) {
  const auto key = [&](int rank) { return fmt::format("{}/{}/{}", options.name, stage, rank); };
  if (absl::Status s = rendezvous.Put(key(options.rank), "1"); !s.ok()) return s;
  std::vector<int> missing;
  for (int rank = 0; rank < options.ranks; ++rank) {
    absl::Status s = rendezvous.Get(key(rank), deadline).status();
    if (absl::IsDeadlineExceeded(s)) {
      missing.push_back(rank);
    } else if (!s.ok()) {
      return s;
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("communicator '{}': rank{} {} did not come to '{}' within {}", options.name,
                  missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), stage,
                  absl::FormatDuration(options.timeout)));
}

// Where to bind: a network interface, or an address or name of this host. Gloo reads memory that it
// never set when a name does not resolve, so that names are tried here first.
absl::StatusOr<gloo::transport::tcp::attr> BindTo(const std::string& interface) {
  gloo::transport::tcp::attr attr;
  if (!interface.empty() && if_nametoindex(interface.c_str()) != 0) {
    attr.iface = interface;
    return attr;
  }
  attr.hostname = interface.empty() ? "127.0.0.1" : interface;
  const addrinfo hints{.ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(attr.hostname.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is neither a network interface of this host nor an address: {}",
                    attr.hostname, gai_strerror(error)));
  }
  bool binds = false;
  for (const addrinfo* at = found; at != nullptr && !binds; at = at->ai_next) {
    const int socket_fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (socket_fd < 0) continue;
    binds = bind(socket_fd, at->ai_addr, at->ai_addrlen) == 0;
    close(socket_fd);
  }
  freeaddrinfo(found);
  if (binds) return attr;
  return absl::InvalidArgumentError(
      fmt::format("'{}' is not an address of this host", attr.hostname));
}

// Gloo writes to sockets without MSG_NOSIGNAL: left at its default, SIGPIPE ends the process when a
// peer is gone, in place of an error that names the peer.
void IgnoreBrokenPipes() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction now {};
    if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
      std::signal(SIGPIPE, SIG_IGN);
    }
  });
}

void (*stray_exception_act)(const char*) = nullptr;
std::terminate_handler earlier_handler = nullptr;

[[noreturn]] void HandleStrayException() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const gloo::Exception& e) {
    stray_exception_act(std::string(Reason(e)).c_str());
  } catch (const gloo::EnforceNotMet& e) {
    stray_exception_act(std::string(Reason(e)).c_str());
  } catch (...) {  // not of the transport
  }
  if (earlier_handler != nullptr) earlier_handler();
  std::abort();
}

}  // namespace

void OnStrayTransportException(void (*act)(const char* what)) {
  stray_exception_act = act;
  earlier_handler = std::set_terminate(HandleStrayException);
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const CommunicatorOptions& options, Rendezvous& rendezvous) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} of {} ranks does not exist", options.rank, options.ranks));
  }
  if (options.ranks == 1) return MakeSingleCommunicator();
  const absl::StatusOr<gloo::transport::tcp::attr> bind_to = BindTo(options.interface);
  if (!bind_to.ok()) return bind_to.status();
  IgnoreBrokenPipes();
  const absl::Time deadline = absl::Now() + options.timeout;
  if (absl::Status s = AwaitRanks(options, rendezvous, "here", deadline); !s.ok()) return s;

  RendezvousStore store(rendezvous, options.name + "/gloo/", deadline);
  try {
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(*bind_to);
    auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.ranks);
    context->setTimeout(Until(deadline));
    context->connectFullMesh(store, device);
    auto communicator = std::make_unique<GlooCommunicator>(options, std::move(context));
    // A rank that left before a peer has accepted its connection would end that peer's process:
    // Gloo then throws in a thread of its own.
    if (absl::Status s = AwaitRanks(options, rendezvous, "connected", deadline); !s.ok()) return s;
    return communicator;
  } catch (const std::exception& e) {
    if (!store.status().ok()) return store.status();
    const std::string text = fmt::format("rank {} cannot connect communicator '{}': {}",
                                         options.rank, options.name, Reason(e));
    return absl::Now() >= deadline ? absl::DeadlineExceededError(text)
                                   : absl::UnavailableError(text);
  }
}

}  // namespace lcab::cp
