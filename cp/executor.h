// Runs one rank's plan on a device. One class of executor a kind of device; above it nobody asks
// which.

#ifndef LCAB_CP_EXECUTOR_H_
#define LCAB_CP_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "cp/plan.h"
#include "cp/strategy.h"
#include "cp/transport.h"
#include "device/device.h"
#include "kernels/kernel.h"
#include "kernels/tensor.h"

namespace lcab::cp {

// A declared input or output of the plan, where it lies in device memory.
struct Shard {
  Tensor tensor = Tensor::kQ;
  int problem = 0;
  TokenSet tokens;  // row n of the view holds token tokens.TokenAt(n)
  Interval heads;
  TensorView view;       // for all but LSE
  RowStatView row_stat;  // for LSE
};

// Bytes a rank will take, known before anything is allocated.
struct MemoryNeed {
  int64_t plan_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t schedule_bytes = 0;
  int64_t total() const { return plan_bytes + workspace_bytes + schedule_bytes; }
};

struct ExecutorOptions {
  const Kernel* kernel = nullptr;
  Options kernel_options;  // resolved
  Device* device = nullptr;
  // Makes communicator `index` of the plan, and after those one more that carries no data, for
  // Barrier(); called in the same order on every rank. Not called for one rank.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(int index)> make_communicator;
  absl::Duration step_timeout = absl::Seconds(30);
  // Test hook: "" or the name of a fault to plant. "stale_key": each AttendBackward reads the K of
  // the one before it; "skip_merge": the last Merge is left out; "drop_row": the last row of out
  // is not written. Never set outside tests.
  std::string fault;
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Allocates, and prepares a kernel for each distinct Attend. Concerns this rank alone, so that
  // ranks can vote (ResourceExhausted on one of them) before any waits for another in Connect().
  virtual absl::Status Prepare() = 0;
  // Makes the communicators, with all other ranks. After Prepare(), before Enqueue() or Barrier().
  virtual absl::Status Connect() = 0;
  virtual MemoryNeed memory_need() const = 0;

  // Enqueues the pass on the device's compute stream: work that is complete when that stream is.
  // Errors of asynchronous steps come from the stream's Synchronize.
  virtual absl::Status Enqueue(Pass pass) = 0;
  // Runs the pass, untimed, and compares the bits of what each Attend or AttendBackward may only
  // read before and after its call, temporaries of the plan included. What was changed and where,
  // as in "q of rank 0, forward, step 3 (Attend on stream 0)". All ranks at the same time.
  virtual absl::StatusOr<std::vector<std::string>> RunWatched(Pass pass, absl::Time deadline) = 0;
  // Waits for all ranks, on a communicator of its own that carries no data. Keeps samples aligned.
  virtual absl::Status Barrier(absl::Time deadline) = 0;

  virtual const std::vector<Shard>& inputs() const = 0;
  virtual const std::vector<Shard>& outputs(Pass pass) const = 0;

  // Payload bytes sent since the last reset, as the transports counted them.
  virtual int64_t bytes_sent() const = 0;
  virtual void ResetBytesSent() = 0;

  // From any thread: pending communication fails soon, with Aborted(reason).
  virtual void Abort(std::string_view reason) = 0;
};

// What plans must know of the kernel.
PlanTraits GetPlanTraits(const Kernel& kernel, const Options& kernel_options);

// What the plan needs on this device with this kernel, without allocating. Unimplemented as for
// MakeExecutor().
absl::StatusOr<MemoryNeed> GetMemoryNeed(const RankPlan& plan, const ExecutorOptions& options);

// Executor for the kind of options.device. The plan is copied. Unimplemented when the kernel
// cannot run one of the plan's Attend steps, with the kernel's reason.
absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(const RankPlan& plan,
                                                       const ExecutorOptions& options);

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTOR_H_
