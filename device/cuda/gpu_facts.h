// A GPU's facts in the form in which they are shown, stored beside results and compared.

#ifndef LCAB_DEVICE_CUDA_GPU_FACTS_H_
#define LCAB_DEVICE_CUDA_GPU_FACTS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/nvml.h"

namespace lcab {

// As NAME=value, what must be equal for two GPUs' figures to be compared: driver and CUDA, clocks,
// power limit, ECC, MIG, links. What is unknown is left out.
std::vector<std::string> ComparableFacts(const CudaDeviceProperties& properties,
                                         const GpuFacts& facts);
// The same for where it is: PCI and NUMA.
std::vector<std::string> PlaceFacts(const CudaDeviceProperties& properties, const GpuFacts& facts);

// What a person should know before trusting figures of it: slices, other programs.
std::vector<std::string> GpuNotes(const CudaDeviceProperties& properties, const GpuFacts& facts,
                                  const std::vector<GpuProcess>& others);

// As the driver tells; empty where there is none.
GpuFacts ReadGpuFacts(const CudaDeviceProperties& properties);
std::vector<GpuProcess> OtherProcessesOn(const CudaDeviceProperties& properties,
                                         const std::vector<pid_t>& own);

}  // namespace lcab

#endif  // LCAB_DEVICE_CUDA_GPU_FACTS_H_
