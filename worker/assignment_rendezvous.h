// The rendezvous of one assignment, as its worker serves it to the ranks that run here. Where all
// ranks do, nothing else is needed: votes stay short, and a gang finishes while the coordinator
// cannot be reached. A gang over several workers meets at the coordinator; what this worker's ranks
// put and still wait for is kept, to be sent again on a new connection.
//
// Not thread-safe: it belongs to the assignment's thread.

#ifndef LCAB_WORKER_ASSIGNMENT_RENDEZVOUS_H_
#define LCAB_WORKER_ASSIGNMENT_RENDEZVOUS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/runner.pb.h"
#include "service/rendezvous_table.h"

namespace lcab::worker {

class AssignmentRendezvous {
 public:
  // Hands an answer to a rank of this worker.
  using Answer = std::function<void(int rank, const v1::RendezvousValue& value)>;
  // Sends a put or a get to the coordinator; where it is empty all ranks are here.
  using Relay = std::function<void(v1::FromWorker message)>;

  // `max_bytes`: of the keys and values that it may hold.
  AssignmentRendezvous(std::string assignment, Answer answer, Relay relay,
                       int64_t max_bytes = service::RendezvousTable::kMaxBytes);

  // ResourceExhausted when it is full: who waits for the key waits in vain. A second value for a
  // key changes nothing, and after Abort nothing is put; neither is a failure.
  absl::Status Put(const v1::RendezvousPut& put);
  // Answered at once, or later from any of the calls below. A get without a timeout waits a minute.
  void Get(int rank, const v1::RendezvousGet& get, absl::Time now);
  // What the coordinator answered. Fails as Put does.
  absl::Status Deliver(int rank, const v1::RendezvousValue& value);
  // Those who wait, now or later, get Aborted with the reason.
  void Abort(const std::string& reason);
  // DeadlineExceeded for those whose time is over. Returns when there is work next.
  absl::Time Expire(absl::Time now);
  // On a new connection: relays again all puts, and the gets that have no answer.
  void Resend(absl::Time now);

 private:
  using Request = std::pair<int, int64_t>;  // rank, number
  struct Waiting {
    std::string key;
    absl::Time deadline;
  };

  void RelayPut(const v1::RendezvousPut& put);
  void RelayGet(const Request& request, const Waiting& waiting, absl::Time now);

  const std::string assignment_;
  const Answer answer_;
  const Relay relay_;
  std::vector<v1::RendezvousPut> puts_;
  std::map<Request, Waiting> waiting_;
  // Destroyed first: it answers what still waits.
  service::RendezvousTable table_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_ASSIGNMENT_RENDEZVOUS_H_
