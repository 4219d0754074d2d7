// The steps of a plan that are no kernel's, as one kind of device does them. The plan executor
// calls each from Stream::Enqueue(), when the stream's turn has come: a CPU does the work then and
// there, a GPU enqueues it on the stream.

#ifndef LCAB_CP_EXECUTORS_DEVICE_STEPS_H_
#define LCAB_CP_EXECUTORS_DEVICE_STEPS_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cp/executors/operand.h"
#include "cp/transport.h"
#include "device/device.h"
#include "kernels/tensor.h"

namespace lcab::cp {

// What each computes, to the rounding, is told in elementwise.h. Operands live as long as the plan.
class DeviceSteps {
 public:
  virtual ~DeviceSteps() = default;

  virtual absl::Status ComputeDelta(const Operand& out, const Operand& dout, const Operand& delta,
                                    Stream& stream) = 0;
  virtual absl::Status MergePart(const Operand& out, const Operand& lse, const Operand& part,
                                 const Operand& part_lse, Stream& stream) = 0;
  virtual absl::Status AddTo(const Operand& to, const Operand& from, Stream& stream) = 0;
  virtual absl::Status CopyTo(const Operand& to, const Operand& from, Stream& stream) = 0;
  virtual absl::Status FillWith(const Operand& to, float value, Stream& stream) = 0;

  // The communicator's Exchange() of device memory. Returns when the host has nothing left to do.
  virtual absl::Status Exchange(Communicator& communicator, std::span<const SendBuffer> sends,
                                std::span<const ReceiveBuffer> receives, absl::Time deadline,
                                Stream& stream) = 0;

  // Of all bits that a view covers, and of where they stand, as they are when the stream's turn
  // has come. May wait for the device, until the deadline.
  virtual absl::StatusOr<uint64_t> Digest(const TensorView& view, absl::Time deadline,
                                          Stream& stream) = 0;
};

}  // namespace lcab::cp

#endif  // LCAB_CP_EXECUTORS_DEVICE_STEPS_H_
