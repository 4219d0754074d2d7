#include "device/cuda/nvml_functions.h"

#include <initializer_list>

namespace lcab::nvml {
namespace {

// The first of the names that the library has: later versions rename, and keep the old for a while.
template <typename Function>
void Load(const VendorLibrary& library, Function*& function,
          std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const absl::StatusOr<Function*> symbol = library.Symbol<Function>(name); symbol.ok()) {
      function = *symbol;
      return;
    }
  }
}

}  // namespace

absl::StatusOr<Functions> LoadFunctions() {
  const absl::StatusOr<VendorLibrary> library = VendorLibrary::Open(
      {.name = "NVML", .sonames = {"libnvidia-ml.so.1"}, .install = "NVIDIA's driver"});
  if (!library.ok()) return library.status();
  Functions functions;
  Load(*library, functions.init, {"nvmlInit_v2"});
  Load(*library, functions.error_string, {"nvmlErrorString"});
  Load(*library, functions.driver_version, {"nvmlSystemGetDriverVersion"});
  Load(*library, functions.device_by_pci, {"nvmlDeviceGetHandleByPciBusId_v2"});
  Load(*library, functions.temperature, {"nvmlDeviceGetTemperature"});
  Load(*library, functions.power, {"nvmlDeviceGetPowerUsage"});
  Load(*library, functions.energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  Load(*library, functions.clock, {"nvmlDeviceGetClockInfo"});
  Load(*library, functions.max_clock, {"nvmlDeviceGetMaxClockInfo"});
  Load(*library, functions.clock_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  Load(*library, functions.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  Load(*library, functions.ecc_mode, {"nvmlDeviceGetEccMode"});
  Load(*library, functions.mig_mode, {"nvmlDeviceGetMigMode"});
  Load(*library, functions.memory, {"nvmlDeviceGetMemoryInfo"});
  Load(*library, functions.pcie_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  Load(*library, functions.pcie_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
  Load(*library, functions.nvlink_state, {"nvmlDeviceGetNvLinkState"});
  Load(*library, functions.nvlink_remote, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  Load(*library, functions.compute_processes, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  if (functions.init == nullptr || functions.device_by_pci == nullptr) {
    return absl::NotFoundError(library->path() + " lacks what every driver since 2020 has");
  }
  return functions;
}

}  // namespace lcab::nvml
