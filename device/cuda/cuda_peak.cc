#include "device/cuda/cuda_device.h"

namespace lcab {
namespace {

// Operations of one multiprocessor in one cycle, bf16 with fp32 sums, dense: NVIDIA's white papers
// of each architecture give TFLOP/s, multiprocessors and the clock that these follow from, as in
// "A100: 312 TFLOP/s, 108 multiprocessors, 1410 MHz".
double FlopsPerCycle(int compute_capability) {
  switch (compute_capability) {
    case 80:  // A100
      return 2048;
    case 86:  // A10, RTX 30; as 89 where sums may be bf16
    case 89:  // L4, L40, RTX 40
      return 1024;
    case 90:  // H100, H200
      return 4096;
    case 100:  // B200
    case 103:
      return 8192;
    default:
      return 0;
  }
}

}  // namespace

double CudaPeakFlops(int compute_capability, int multiprocessors, double top_clock_hz) {
  return FlopsPerCycle(compute_capability) * multiprocessors * top_clock_hz;
}

}  // namespace lcab
