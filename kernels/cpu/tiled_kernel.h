// cpu_tiled: exact attention by tiles with an online softmax, on all threads of a CPU device.

#ifndef LCAB_KERNELS_CPU_TILED_KERNEL_H_
#define LCAB_KERNELS_CPU_TILED_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cpu/tiled_plan.h"
#include "kernels/cpu/tiled_simd.h"
#include "kernels/kernel.h"

namespace lcab {

// With the inner loops of one instruction set, which must outlive the kernel. `batch_bytes` bounds
// the copies that are held at a time: kv heads that exceed it together are computed in turn.
std::unique_ptr<Kernel> MakeTiledKernel(std::string name, const TiledSimd& simd,
                                        int64_t batch_bytes = TiledPlan::kBatchBytes);

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_TILED_KERNEL_H_
