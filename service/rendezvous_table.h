// The rendezvous of running assignments: for each, a key-value store in which ranks leave values
// for each other and wait for them. The coordinator keeps those of gangs that span workers.
//
//   table.Open("assignments/7-a1");
//   table.Get("assignments/7-a1", "address/0", deadline, [](auto value) { ... });
//   table.Put("assignments/7-a1", "address/0", "10.0.0.1:4000");  // calls the answer above

#ifndef LCAB_SERVICE_RENDEZVOUS_TABLE_H_
#define LCAB_SERVICE_RENDEZVOUS_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lcab::service {

// Thread-safe. It has no thread and no clock of its own: its owner calls Expire now and then.
class RendezvousTable {
 public:
  // Called exactly once for each Get, never with the table's lock held: from Get itself, or later
  // from Put, Abort, Close or Expire. It must not block.
  using Answer = std::function<void(absl::StatusOr<std::string>)>;

  static constexpr int64_t kMaxBytes = int64_t{64} << 20;

  // `max_bytes`: of keys and values that one assignment may hold.
  explicit RendezvousTable(int64_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}
  RendezvousTable(const RendezvousTable&) = delete;
  RendezvousTable& operator=(const RendezvousTable&) = delete;
  ~RendezvousTable();  // answers what waits with Aborted

  // Does nothing when it is open already.
  void Open(std::string_view assignment);

  // A key has one value: the first stays. AlreadyExists when the key holds another value;
  // ResourceExhausted when the assignment's share is full, FailedPrecondition when it is not open,
  // Aborted(reason) after Abort.
  absl::Status Put(std::string_view assignment, std::string_view key, std::string_view value);

  // Answers with the value as soon as there is one. DeadlineExceeded names the key; Aborted gives
  // the reason of Abort; FailedPrecondition when the assignment is not open.
  void Get(std::string_view assignment, std::string_view key, absl::Time deadline, Answer answer);

  // Wakes all that wait with Aborted(reason); later calls get the same.
  void Abort(std::string_view assignment, std::string_view reason);

  // Forgets the assignment; what still waits is answered with Aborted.
  void Close(std::string_view assignment);

  // Answers waiters whose deadline is not after `now`. Returns the earliest deadline that is left,
  // InfiniteFuture when nothing waits.
  absl::Time Expire(absl::Time now);

 private:
  struct Waiter {
    absl::Time deadline;
    Answer answer;
  };
  struct Board {
    std::map<std::string, std::string, std::less<>> values;
    std::map<std::string, std::vector<Waiter>, std::less<>> waiters;
    int64_t bytes = 0;
    bool aborted = false;
    std::string abort_reason;
  };

  // What is to be called once the lock is released.
  struct Call {
    Answer answer;
    absl::StatusOr<std::string> value;
  };
  static void Run(std::vector<Call> calls);
  static std::vector<Call> TakeWaiters(Board& board, const absl::Status& status);
  static absl::Status AbortedStatus(const Board& board);

  const int64_t max_bytes_;
  std::mutex mutex_;
  std::map<std::string, Board, std::less<>> boards_;
};

}  // namespace lcab::service

#endif  // LCAB_SERVICE_RENDEZVOUS_TABLE_H_
