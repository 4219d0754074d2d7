// What this process may use of its host: CPUs and memory.

#ifndef LCAB_WORKER_RUNNER_PROCESS_LIMITS_H_
#define LCAB_WORKER_RUNNER_PROCESS_LIMITS_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace lcab::runner {

// Binds this process, and threads that it starts from now on, to the CPUs; none given: to all that
// it was started with. InvalidArgument for one that the host does not have.
absl::Status BindToCpus(std::span<const int32_t> cpus);

// Memory that this process may allocate from now on, beyond what it has: an allocation above it
// fails, which a kernel can survive, in place of the operating system killing something. 0: no
// limit. Without effect under sanitizers, which reserve more than any machine has.
absl::Status LimitMemory(int64_t bytes);

// When memory runs out all the same, this process is to be killed rather than its worker.
void OfferToMemoryKiller();

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_PROCESS_LIMITS_H_
