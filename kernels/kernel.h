// A kernel: one way for one kind of device to compute a problem. It either computes exactly what is
// asked or says Unimplemented and why; it never approximates or drops an argument silently.
//
//   const Kernel* kernel = registry.Find("cpu_tiled").value();
//   if (absl::Status s = kernel->Supports(problem, Pass::kForward, device.info()); !s.ok()) ...
//   auto prepared = kernel->Prepare(problem, Pass::kForward, options, device).value();
//   prepared->Forward(tensors, device.stream());

#ifndef LCAB_KERNELS_KERNEL_H_
#define LCAB_KERNELS_KERNEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "device/device.h"
#include "kernels/tensor.h"

namespace lcab {

// How a kernel wants to be called.
struct Traits {
  bool wants_delta = true;         // backward reads delta; else out
  bool float32_out = false;        // can write out in fp32 whatever the dtype (partial results)
  bool float32_gradients = false;  // can write dQ, dK, dV in fp32
  bool accumulates = false;        // can add to fp32 gradients in place of overwriting
  bool deterministic = false;      // repeated runs are bitwise equal
};

// What a problem needs beyond its tensors, known before anything is allocated.
struct Requirements {
  int64_t workspace_bytes = 0;
  int64_t schedule_bytes = 0;
};

struct ForwardTensors {
  TensorView q, k, v;  // the problem's dtype
  TensorView out;      // the problem's dtype, or fp32 where Traits::float32_out
  RowStatView lse;
};

struct BackwardTensors {
  TensorView q, k, v, dout;  // the problem's dtype
  TensorView out;            // data null where the kernel wants delta
  RowStatView lse;           // final, over all keys of the row
  RowStatView delta;         // sum_d dOut * out - dLSE; data null where the kernel wants out
  TensorView dq, dk, dv;     // each the problem's dtype, or fp32 where the traits say so
  bool accumulate = false;   // add to dq, dk, dv (fp32) in place of overwriting
};

// A kernel made ready for one problem on one device. No allocation and no host synchronisation in
// either call; every element of the outputs is written (rows without keys: 0 and -inf).
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  virtual absl::Status Forward(const ForwardTensors& tensors, Stream& stream) = 0;
  virtual absl::Status Backward(const BackwardTensors& tensors, Stream& stream) = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  virtual DeviceKind device_kind() const = 0;
  virtual std::vector<Parameter> parameters() const { return {}; }
  // Hidden kernels (test kernels) run when named but stand in no list.
  virtual bool hidden() const { return false; }

  // Ok, or Unimplemented with the reason. `options` are resolved.
  virtual absl::Status Supports(const Problem& problem, Pass pass, const Options& options,
                                const DeviceInfo& device) const = 0;
  virtual Traits GetTraits(const Options& options) const = 0;
  virtual absl::StatusOr<Requirements> GetRequirements(const Problem& problem, Pass pass,
                                                       const Options& options,
                                                       const DeviceInfo& device) const = 0;
  // Compiles schedules and allocates workspace: timed apart. The problem is copied as needed.
  virtual absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem& problem, Pass pass,
                                                                  const Options& options,
                                                                  Device& device) const = 0;
};

}  // namespace lcab

#endif  // LCAB_KERNELS_KERNEL_H_
