// The rate of fused multiply-adds without anything else: what kernels are measured against.

#ifndef LCAB_TESTS_PEERS_MULTIPLY_ADD_RATE_H_
#define LCAB_TESTS_PEERS_MULTIPLY_ADD_RATE_H_

#include "device/device.h"

namespace lcab {

// Floating-point operations a second of all threads of a CPU device, in registers: the best of
// several bursts.
double MultiplyAddRate(Device& device);

}  // namespace lcab

#endif  // LCAB_TESTS_PEERS_MULTIPLY_ADD_RATE_H_
