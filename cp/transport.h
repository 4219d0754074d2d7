// What carries data between ranks. One communicator belongs to one stream of the plan; its
// operations run in the order in which they are given, the same on every rank.

#ifndef LCAB_CP_TRANSPORT_H_
#define LCAB_CP_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lcab::cp {

// The rendezvous of one attempt: a key-value store that all its ranks reach even when a
// communicator is broken. Keys are written once.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // AlreadyExists when the key holds another value.
  virtual absl::Status Put(std::string_view key, std::string_view value) = 0;
  // Waits for the key. DeadlineExceeded names it; Aborted when the attempt was aborted meanwhile,
  // with the reason.
  virtual absl::StatusOr<std::string> Get(std::string_view key, absl::Time deadline) = 0;
};

// A rendezvous among threads of one process, for tests and single ranks. Thread-safe.
class LocalRendezvous : public Rendezvous {
 public:
  LocalRendezvous();
  ~LocalRendezvous() override;
  absl::Status Put(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::string> Get(std::string_view key, absl::Time deadline) override;
  // Wakes all waiters with Aborted(reason).
  void Abort(std::string_view reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct SendBuffer {
  int peer = 0;
  std::span<const std::byte> data;
};
struct ReceiveBuffer {
  int peer = 0;
  std::span<std::byte> data;
};

// Every operation has a deadline and names the peer it waited for. After an error a communicator
// is only good for Abort().
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Posted together, complete together.
  virtual absl::Status Exchange(std::span<const SendBuffer> sends,
                                std::span<const ReceiveBuffer> receives, absl::Time deadline) = 0;
  virtual absl::Status Barrier(absl::Time deadline) = 0;
  // From any thread: pending and later operations fail with Aborted, soon.
  virtual void Abort(std::string_view reason) = 0;

  // Payload bytes handed to the wire for other ranks since the last reset, counted here, not read
  // from a plan. Barriers and rendezvous do not count.
  virtual int64_t bytes_sent() const = 0;
  virtual void ResetBytesSent() = 0;
};

struct CommunicatorOptions {
  int rank = 0;
  int ranks = 1;
  std::string name;       // distinguishes the communicators of one attempt
  std::string interface;  // network interface or address to bind; empty: loopback
  absl::Duration timeout = absl::Seconds(30);
};

// Connects all ranks. Fails with DeadlineExceeded naming the ranks that did not come, and with
// InvalidArgument for an interface that this host does not have. A peer that is gone shows as
// Unavailable, naming it, for those that wait for it; for that, a SIGPIPE that nobody handles is
// ignored from now on in this process.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const CommunicatorOptions& options, Rendezvous& rendezvous);

// Gloo throws in threads of its own when a peer dies while ranks connect; nobody can catch that,
// and the process ends as by a fault of its own. From here on `act` is called first, with the words
// of such an exception; it must end the process. Other exceptions end it as before. For programs
// that may die alone, once.
void OnStrayTransportException(void (*act)(const char* what));
// For one rank: exchanges with itself only.
std::unique_ptr<Communicator> MakeSingleCommunicator();

}  // namespace lcab::cp

#endif  // LCAB_CP_TRANSPORT_H_
