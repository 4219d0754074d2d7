// What the hidden test kernels have in common: each is cpu_tiled with one fault, for the tests of
// those who must notice it. They run when named and stand in no list.

#ifndef LCAB_KERNELS_CPU_TEST_KERNEL_H_
#define LCAB_KERNELS_CPU_TEST_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/registry.h"

namespace lcab {

// What a fault does around the calls of cpu_tiled that it wraps. Everything defaults to no fault.
// A new one is made for each Prepare().
class Fault {
 public:
  virtual ~Fault() = default;

  // The problem that cpu_tiled computes in place of the given one.
  virtual absl::StatusOr<Problem> Distort(const Problem& problem) { return problem; }
  virtual absl::Status OnPrepare() { return absl::OkStatus(); }
  // Before call number `call` (from 1). False: cpu_tiled is not called.
  virtual absl::StatusOr<bool> BeforeForward(int64_t /*call*/, const ForwardTensors& /*tensors*/) {
    return true;
  }
  virtual void AfterForward(const ForwardTensors& /*tensors*/) {}
  virtual absl::StatusOr<bool> BeforeBackward(int64_t /*call*/,
                                              const BackwardTensors& /*tensors*/) {
    return true;
  }
  virtual void AfterBackward(const BackwardTensors& /*tensors*/) {}
};

struct FaultType {
  std::string name;  // of the kernel, "test_..."
  std::string description;
  std::vector<Parameter> parameters;
  std::unique_ptr<Fault> (*make)(const Options& options) = nullptr;
};

// Faults of programs: crashes, hangs, memory, noise.
std::vector<FaultType> ProgramFaults();
// Faults of results: each must be found by verification.
std::vector<FaultType> ResultFaults();

std::unique_ptr<Kernel> MakeTestKernel(FaultType type);

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_TEST_KERNEL_H_
