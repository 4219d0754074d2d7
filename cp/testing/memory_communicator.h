// Ranks as threads of one process that pass messages through memory: for tests of plans, where a
// network would only cost time.

#ifndef LCAB_CP_TESTING_MEMORY_COMMUNICATOR_H_
#define LCAB_CP_TESTING_MEMORY_COMMUNICATOR_H_

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cp/transport.h"

namespace lcab::cp {

// The mailboxes of one communicator, shared by its ranks.
class MemoryHub {
 public:
  explicit MemoryHub(int ranks) : ranks_(ranks) {}
  // The communicator of one rank; the hub must outlive it.
  std::unique_ptr<Communicator> Join(int rank);

  int ranks() const { return ranks_; }
  void Send(int from, int to, std::span<const std::byte> data);
  absl::Status Receive(int from, int to, std::span<std::byte> data, absl::Time deadline);
  void Abort(std::string_view reason);

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;  // by (from, to)
  std::optional<std::string> abort_reason_;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_TESTING_MEMORY_COMMUNICATOR_H_
