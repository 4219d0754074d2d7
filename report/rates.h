// Rates of a measured trial. Only a trial that is `ok` has one: a wrong result is worth nothing,
// however fast.

#ifndef LCAB_REPORT_RATES_H_
#define LCAB_REPORT_RATES_H_

#include <optional>

#include "lcab/v1/jobs.pb.h"

namespace lcab::report {

// 10^12 floating-point operations a second of all ranks together: the pass's operations over the
// median of the samples. Nothing unless the trial is ok and was timed.
std::optional<double> Tflops(const v1::Trial& trial);

// The same for each device.
std::optional<double> TflopsPerDevice(const v1::Trial& trial);

}  // namespace lcab::report

#endif  // LCAB_REPORT_RATES_H_
