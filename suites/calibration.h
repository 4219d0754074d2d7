// How fast this machine's kernels are, roughly, from a run of a tenth of a second: enough to say
// whether a suite takes a minute or a day.

#ifndef LCAB_SUITES_CALIBRATION_H_
#define LCAB_SUITES_CALIBRATION_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "attention/parameters.h"
#include "attention/problem.h"
#include "device/device.h"
#include "suites/catalogue.h"

namespace lcab::suites {

class Calibration {
 public:
  // On all threads of this machine. `threads` below 1: as many as there are.
  explicit Calibration(int threads = 0);

  // Floating-point operations a second of a kernel on problems like this one (its operator, head
  // dims and dtype), under a causal mask of a few hundred tokens. Measured once for each such kind.
  // Nothing for kernels that are hidden (some are made to fail), that are not of this build or not
  // for CPUs, or that cannot compute it.
  std::optional<double> FlopsPerSecond(const KernelEntry& kernel, const Options& options,
                                       const Problem& problem, Pass pass);

  // Of this machine, for what must be asked of a device; nullptr where none can be made.
  Device* device() { return device_.get(); }

 private:
  std::unique_ptr<Device> device_;
  std::map<std::string, std::optional<double>> rates_;
};

}  // namespace lcab::suites

#endif  // LCAB_SUITES_CALIBRATION_H_
