// Registers cpu_tiled with the best instruction set of the machine.

#include "kernels/cpu/tiled_kernel.h"
#include "kernels/cpu/tiled_simd.h"
#include "kernels/registry.h"

namespace lcab {

void Register_cpu_tiled(KernelRegistry& registry) {
  registry.AddBuiltin(MakeTiledKernel("cpu_tiled", BestTiledSimd()));
}

}  // namespace lcab
