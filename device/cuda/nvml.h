// What the driver's management library says of a GPU: what it is, how it is linked, how it is doing
// and who else is on it. What it does not say is empty, 0 or nothing, never a guess.
//
//   absl::StatusOr<const Nvml*> nvml = Nvml::Get();
//   absl::StatusOr<NvmlDevice> gpu = (*nvml)->DeviceByPciBusId("00000000:1B:00.0");
//   gpu->ReadConditions().temperature_celsius

#ifndef LCAB_DEVICE_CUDA_NVML_H_
#define LCAB_DEVICE_CUDA_NVML_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/cuda/nvml_functions.h"
#include "device/device.h"

namespace lcab {

// Of one GPU, as it is for as long as nobody changes its settings.
struct GpuFacts {
  std::string driver_version;  // "580.159.04"
  double top_clock_hz = 0;     // of its multiprocessors
  double top_memory_clock_hz = 0;
  double power_limit_watts = 0;
  std::optional<bool> ecc;
  bool mig = false;  // cut into slices
  int64_t memory_bytes = 0;
  int pcie_generation = 0;
  int pcie_lanes = 0;
  int numa_node = -1;  // -1: unknown, or there is one only
  // NVLinks that are up, by what is at the other end: PCI bus ids of GPUs, or of switches.
  struct Link {
    std::string peer;
    int count = 0;
  };
  std::vector<Link> nvlinks;
};

struct GpuProcess {
  pid_t pid = 0;
  std::string name;   // of its program; empty where it cannot be seen from here
  int64_t bytes = 0;  // of the GPU's memory; 0: unknown
};

class NvmlDevice {
 public:
  NvmlDevice(const nvml::Functions& functions, nvml::Handle handle, std::string pci_bus_id)
      : functions_(functions), handle_(handle), pci_bus_id_(std::move(pci_bus_id)) {}

  // `sys` stands for /sys, for tests.
  GpuFacts ReadFacts(const std::string& sys = "/sys") const;
  // With the clock of now. Takes about a millisecond, and slows short kernels that run meanwhile:
  // not within a sample, and not more often than every 20 ms.
  Conditions ReadConditions() const;
  // Since the driver was loaded; 0: unknown. Takes microseconds.
  double ReadEnergyJoules() const;
  // Programs that hold a context there, without `own`.
  std::vector<GpuProcess> OtherProcesses(const std::vector<pid_t>& own) const;

 private:
  nvml::Functions functions_;
  nvml::Handle handle_;
  std::string pci_bus_id_;
};

class Nvml {
 public:
  // Opened once in a process. NotFound where there is no driver; Unavailable where it does not
  // answer.
  static absl::StatusOr<const Nvml*> Get();
  static absl::StatusOr<Nvml> Create(const nvml::Functions& functions);

  absl::StatusOr<NvmlDevice> DeviceByPciBusId(const std::string& bus_id) const;

 private:
  explicit Nvml(const nvml::Functions& functions) : functions_(functions) {}
  nvml::Functions functions_;
};

// Conditions from the bits of nvmlClocksEventReasons: those that make a sample worthless, and the
// power cap, which does not.
void AddClockReasons(unsigned long long reasons, Conditions* conditions);

}  // namespace lcab

#endif  // LCAB_DEVICE_CUDA_NVML_H_
