#include "device/cuda/nvml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <string_view>
#include <utility>

namespace lcab {
namespace {

// More than any GPU has; a link that is not there answers with an error.
constexpr unsigned kMostLinks = 36;

struct ClockReason {
  unsigned long long bit;
  std::string_view words;
  bool throttled;
};
constexpr std::array<ClockReason, 6> kClockReasons = {{
    {nvml::kSwPowerCap, "power cap", false},
    {nvml::kHwSlowdown, "hardware slowdown", true},
    {nvml::kSyncBoost, "sync boost", false},
    {nvml::kSwThermalSlowdown, "thermal slowdown by the driver", true},
    {nvml::kHwThermalSlowdown, "thermal slowdown by the hardware", true},
    {nvml::kHwPowerBrakeSlowdown, "power brake", true},
}};

// The value that function(arguments..., &value) leaves; nothing where it is absent or fails.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> Ask(Function* function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != nvml::kSuccess) return std::nullopt;
  return value;
}

double Hertz(std::optional<unsigned> megahertz) { return 1e6 * megahertz.value_or(0); }

// -1 where the machine has one node, or does not say.
int NumaNodeOf(const std::string& sys, std::string bus_id) {
  // NVML writes domains with eight digits, the kernel with four, in lower case.
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (bus_id.size() == 16) bus_id.erase(0, 4);
  std::ifstream file(fmt::format("{}/bus/pci/devices/{}/numa_node", sys, bus_id));
  int node = -1;
  return file >> node ? node : -1;
}

std::string ProgramOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

void AddClockReasons(unsigned long long reasons, Conditions* conditions) {
  for (const ClockReason& reason : kClockReasons) {
    if ((reasons & reason.bit) == 0) continue;
    if (reason.throttled) conditions->throttled = true;
    if (reason.bit == nvml::kSwPowerCap) conditions->power_capped = true;
    if (!conditions->reasons.empty()) conditions->reasons += ", ";
    conditions->reasons += reason.words;
  }
}

GpuFacts NvmlDevice::ReadFacts(const std::string& sys) const {
  GpuFacts facts;
  std::array<char, 96> version{};
  if (functions_.driver_version != nullptr &&
      functions_.driver_version(version.data(), version.size()) == nvml::kSuccess) {
    facts.driver_version = version.data();
  }
  facts.top_clock_hz = Hertz(Ask<unsigned>(functions_.max_clock, handle_, nvml::kSmClock));
  facts.top_memory_clock_hz =
      Hertz(Ask<unsigned>(functions_.max_clock, handle_, nvml::kMemoryClock));
  facts.power_limit_watts = Ask<unsigned>(functions_.power_limit, handle_).value_or(0) / 1e3;
  int ecc = 0;
  int ecc_pending = 0;
  if (functions_.ecc_mode != nullptr &&
      functions_.ecc_mode(handle_, &ecc, &ecc_pending) == nvml::kSuccess) {
    facts.ecc = ecc != 0;
  }
  unsigned mig = 0;
  unsigned mig_pending = 0;
  facts.mig = functions_.mig_mode != nullptr &&
              functions_.mig_mode(handle_, &mig, &mig_pending) == nvml::kSuccess && mig != 0;
  facts.memory_bytes = static_cast<int64_t>(
      Ask<nvml::MemoryInfo>(functions_.memory, handle_).value_or(nvml::MemoryInfo{}).total);
  facts.pcie_generation =
      static_cast<int>(Ask<unsigned>(functions_.pcie_generation, handle_).value_or(0));
  facts.pcie_lanes = static_cast<int>(Ask<unsigned>(functions_.pcie_width, handle_).value_or(0));
  facts.numa_node = NumaNodeOf(sys, pci_bus_id_);
  for (unsigned link = 0; link < kMostLinks; ++link) {
    if (Ask<int>(functions_.nvlink_state, handle_, link).value_or(0) == 0) continue;
    const std::optional<nvml::PciInfo> remote =
        Ask<nvml::PciInfo>(functions_.nvlink_remote, handle_, link);
    const std::string peer = remote.has_value() ? remote->bus_id : "";
    const auto known = std::find_if(facts.nvlinks.begin(), facts.nvlinks.end(),
                                    [&](const GpuFacts::Link& l) { return l.peer == peer; });
    if (known == facts.nvlinks.end()) {
      facts.nvlinks.push_back({peer, 1});
    } else {
      ++known->count;
    }
  }
  return facts;
}

Conditions NvmlDevice::ReadConditions() const {
  Conditions conditions;
  conditions.clock_hz = Hertz(Ask<unsigned>(functions_.clock, handle_, nvml::kSmClock));
  conditions.expected_clock_hz =
      Hertz(Ask<unsigned>(functions_.max_clock, handle_, nvml::kSmClock));
  conditions.temperature_celsius =
      Ask<unsigned>(functions_.temperature, handle_, nvml::kGpuTemperature).value_or(0);
  conditions.power_watts = Ask<unsigned>(functions_.power, handle_).value_or(0) / 1e3;
  conditions.energy_joules = ReadEnergyJoules();
  AddClockReasons(Ask<unsigned long long>(functions_.clock_reasons, handle_).value_or(0),
                  &conditions);
  return conditions;
}

double NvmlDevice::ReadEnergyJoules() const {
  return static_cast<double>(Ask<unsigned long long>(functions_.energy, handle_).value_or(0)) / 1e3;
}

std::vector<GpuProcess> NvmlDevice::OtherProcesses(const std::vector<pid_t>& own) const {
  std::vector<GpuProcess> others;
  if (functions_.compute_processes == nullptr) return others;
  std::vector<nvml::ProcessInfo> found(64);
  auto count = static_cast<unsigned>(found.size());
  nvml::Return result = functions_.compute_processes(handle_, &count, found.data());
  if (result == nvml::kInsufficientSize) {
    // Some may start meanwhile.
    found.resize(size_t{count} + 64);
    count = static_cast<unsigned>(found.size());
    result = functions_.compute_processes(handle_, &count, found.data());
  }
  if (result != nvml::kSuccess) return others;
  found.resize(std::min<size_t>(count, found.size()));
  for (const nvml::ProcessInfo& process : found) {
    const auto pid = static_cast<pid_t>(process.pid);
    if (std::find(own.begin(), own.end(), pid) != own.end()) continue;
    // Where the driver cannot tell, as under MIG, all bits are set.
    const bool known = process.used_memory != ~0ULL;
    others.push_back({.pid = pid,
                      .name = ProgramOf(pid),
                      .bytes = known ? static_cast<int64_t>(process.used_memory) : 0});
  }
  return others;
}

absl::StatusOr<Nvml> Nvml::Create(const nvml::Functions& functions) {
  if (const nvml::Return result = functions.init(); result != nvml::kSuccess) {
    return absl::UnavailableError(fmt::format("NVIDIA's driver does not answer: {}",
                                              functions.error_string == nullptr
                                                  ? fmt::format("NVML error {}", result)
                                                  : std::string(functions.error_string(result))));
  }
  return Nvml(functions);
}

absl::StatusOr<const Nvml*> Nvml::Get() {
  // Never shut down: other threads may be asking when the process ends.
  static const auto* const opened = new absl::StatusOr<Nvml>([]() -> absl::StatusOr<Nvml> {
    const absl::StatusOr<nvml::Functions> functions = nvml::LoadFunctions();
    if (!functions.ok()) return functions.status();
    return Create(*functions);
  }());
  if (!opened->ok()) return opened->status();
  return &**opened;
}

absl::StatusOr<NvmlDevice> Nvml::DeviceByPciBusId(const std::string& bus_id) const {
  nvml::Handle handle = nullptr;
  if (functions_.device_by_pci(bus_id.c_str(), &handle) != nvml::kSuccess) {
    return absl::NotFoundError(fmt::format("the driver knows no GPU at PCI {}", bus_id));
  }
  return NvmlDevice(functions_, handle, bus_id);
}

}  // namespace lcab
