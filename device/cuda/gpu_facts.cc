#include "device/cuda/gpu_facts.h"

#include <fmt/format.h>

#include <optional>

namespace lcab {
namespace {

// 13000 is 13.0.
std::string CudaVersion(int64_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::optional<NvmlDevice> NvmlOf(const CudaDeviceProperties& properties) {
  const absl::StatusOr<const Nvml*> nvml = Nvml::Get();
  if (!nvml.ok()) return std::nullopt;
  absl::StatusOr<NvmlDevice> device = (*nvml)->DeviceByPciBusId(properties.pci_bus_id);
  if (!device.ok()) return std::nullopt;
  return *std::move(device);
}

}  // namespace

std::vector<std::string> ComparableFacts(const CudaDeviceProperties& properties,
                                         const GpuFacts& facts) {
  std::vector<std::string> texts;
  const auto add = [&](std::string_view name, const auto& value) {
    texts.push_back(fmt::format("{}={}", name, value));
  };
  if (properties.compute_capability > 0) add("compute_capability", properties.compute_capability);
  if (!facts.driver_version.empty()) add("driver", facts.driver_version);
  if (properties.driver_cuda_version > 0) {
    add("driver_cuda", CudaVersion(properties.driver_cuda_version));
  }
  if (properties.runtime_cuda_version > 0) {
    add("cuda", CudaVersion(properties.runtime_cuda_version));
  }
  const double top_clock = facts.top_clock_hz > 0 ? facts.top_clock_hz : properties.top_clock_hz;
  if (top_clock > 0) add("top_clock_mhz", top_clock / 1e6);
  if (facts.top_memory_clock_hz > 0) add("top_memory_clock_mhz", facts.top_memory_clock_hz / 1e6);
  if (facts.power_limit_watts > 0) add("power_limit_watts", facts.power_limit_watts);
  if (facts.ecc.has_value()) add("ecc", *facts.ecc ? "on" : "off");
  if (facts.mig) add("mig", "on");
  if (facts.pcie_generation > 0) {
    add("pcie", fmt::format("{}x{}", facts.pcie_generation, facts.pcie_lanes));
  }
  int links = 0;
  for (const GpuFacts::Link& link : facts.nvlinks) links += link.count;
  if (links > 0) add("nvlinks", links);
  return texts;
}

std::vector<std::string> PlaceFacts(const CudaDeviceProperties& properties, const GpuFacts& facts) {
  std::vector<std::string> texts;
  if (!properties.pci_bus_id.empty()) texts.push_back("pci=" + properties.pci_bus_id);
  if (facts.numa_node >= 0) texts.push_back(fmt::format("numa_node={}", facts.numa_node));
  return texts;
}

std::vector<std::string> GpuNotes(const CudaDeviceProperties& properties, const GpuFacts& facts,
                                  const std::vector<GpuProcess>& others) {
  std::vector<std::string> notes;
  if (facts.mig) {
    notes.push_back(fmt::format("{} ({}) is cut into MIG slices, which share power and clocks",
                                properties.uuid, properties.model));
  }
  for (const GpuProcess& process : others) {
    notes.push_back(fmt::format("{} ({}) is used by process {}{} too: timings vary",
                                properties.uuid, properties.model, process.pid,
                                process.name.empty() ? "" : fmt::format(" ({})", process.name)));
  }
  return notes;
}

GpuFacts ReadGpuFacts(const CudaDeviceProperties& properties) {
  const std::optional<NvmlDevice> device = NvmlOf(properties);
  return device.has_value() ? device->ReadFacts() : GpuFacts{};
}

std::vector<GpuProcess> OtherProcessesOn(const CudaDeviceProperties& properties,
                                         const std::vector<pid_t>& own) {
  const std::optional<NvmlDevice> device = NvmlOf(properties);
  return device.has_value() ? device->OtherProcesses(own) : std::vector<GpuProcess>{};
}

}  // namespace lcab
