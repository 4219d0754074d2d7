// The GPUs that a worker offers: devices like its CPU slots.

#ifndef LCAB_WORKER_GPUS_H_
#define LCAB_WORKER_GPUS_H_

#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/nvml.h"
#include "worker/inventory.h"

namespace lcab::worker {

struct Gpu {
  CudaDeviceProperties properties;
  GpuFacts facts;
  std::vector<GpuProcess> others;  // that use it while nothing of this worker runs
};
struct Gpus {
  std::vector<Gpu> gpus;
  std::string reason;  // in words, when there is none
};

// Of this machine, as far as CUDA_VISIBLE_DEVICES shows them. Takes a second where there are some.
Gpus FindGpus();

// Adds a device for each, named by its UUID and with `threads` CPU threads of its own, or a note
// that says why there is none.
void AddGpus(const Gpus& gpus, int threads, Inventory& inventory);

}  // namespace lcab::worker

#endif  // LCAB_WORKER_GPUS_H_
