// Those functions of NVML that are used, as nvml.h of NVIDIA's driver declares them: the header is
// not needed to build, the library is opened when the program runs.

#ifndef LCAB_DEVICE_CUDA_NVML_FUNCTIONS_H_
#define LCAB_DEVICE_CUDA_NVML_FUNCTIONS_H_

#include "absl/status/statusor.h"
#include "device/cuda/vendor_library.h"

namespace lcab::nvml {

using Return = int;  // nvmlReturn_t
using Handle = struct nvmlDevice_st*;

inline constexpr Return kSuccess = 0;
inline constexpr Return kInsufficientSize = 7;

inline constexpr unsigned kGpuTemperature = 0;  // nvmlTemperatureSensors_t
inline constexpr unsigned kSmClock = 1;         // nvmlClockType_t
inline constexpr unsigned kMemoryClock = 2;

// nvmlClocksEventReasons
inline constexpr unsigned long long kSwPowerCap = 0x4;
inline constexpr unsigned long long kHwSlowdown = 0x8;
inline constexpr unsigned long long kSyncBoost = 0x10;
inline constexpr unsigned long long kSwThermalSlowdown = 0x20;
inline constexpr unsigned long long kHwThermalSlowdown = 0x40;
inline constexpr unsigned long long kHwPowerBrakeSlowdown = 0x80;

// nvmlMemory_t
struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// nvmlPciInfo_t
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

// A function is null where this version of the library lacks it.
struct Functions {
  Return (*init)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*driver_version)(char* text, unsigned length) = nullptr;
  Return (*device_by_pci)(const char* bus_id, Handle*) = nullptr;
  Return (*temperature)(Handle, unsigned sensor, unsigned* celsius) = nullptr;
  Return (*power)(Handle, unsigned* milliwatts) = nullptr;
  Return (*energy)(Handle, unsigned long long* millijoules) = nullptr;
  Return (*clock)(Handle, unsigned type, unsigned* megahertz) = nullptr;
  Return (*max_clock)(Handle, unsigned type, unsigned* megahertz) = nullptr;
  Return (*clock_reasons)(Handle, unsigned long long* reasons) = nullptr;
  Return (*power_limit)(Handle, unsigned* milliwatts) = nullptr;
  Return (*ecc_mode)(Handle, int* current, int* pending) = nullptr;
  Return (*mig_mode)(Handle, unsigned* current, unsigned* pending) = nullptr;
  Return (*memory)(Handle, MemoryInfo*) = nullptr;
  Return (*pcie_generation)(Handle, unsigned* generation) = nullptr;  // the most it can do
  Return (*pcie_width)(Handle, unsigned* lanes) = nullptr;
  Return (*nvlink_state)(Handle, unsigned link, int* active) = nullptr;
  Return (*nvlink_remote)(Handle, unsigned link, PciInfo*) = nullptr;
  Return (*compute_processes)(Handle, unsigned* count, ProcessInfo*) = nullptr;
};

// Opens the library. NotFound where there is none: there is no driver either.
absl::StatusOr<Functions> LoadFunctions();

}  // namespace lcab::nvml

#endif  // LCAB_DEVICE_CUDA_NVML_FUNCTIONS_H_
