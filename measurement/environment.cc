#include "measurement/environment.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>

#include "lcab_version.h"

namespace lcab::measurement {
namespace {

// Names, or beginnings of names where they end in '_', of variables that change behaviour: thread
// pools and numerics, communication, devices, allocators, the loader.
constexpr std::array<std::string_view, 19> kBehaviour = {
    "OMP_",       "GOMP_",           "KMP_",           "MKL_",   "OPENBLAS_", "BLIS_", "GLOO_",
    "NCCL_",      "CUDA_",           "CUBLAS_",        "CUDNN_", "NVIDIA_",   "UCX_",  "MALLOC_",
    "LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "TORCH_", "TRITON_"};

// Which of several devices, not how they behave: the device's model counts.
constexpr std::array<std::string_view, 2> kWhichDevice = {"CUDA_VISIBLE_DEVICES",
                                                          "NVIDIA_VISIBLE_DEVICES"};

std::string_view NameOf(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::optional<std::string> ReadFile(std::string_view root, std::string_view path) {
  std::ifstream file(fmt::format("{}{}", root, path));
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\"";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The value behind `separator` in the first line that starts with `name`; empty when there is none.
std::string FieldOf(const std::string& text, std::string_view name, char separator) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (line.substr(0, name.size()) == name) {
      if (const size_t at = line.find(separator, name.size()); at != std::string_view::npos) {
        return std::string(Trim(line.substr(at + 1)));
      }
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

double NumberIn(std::string_view text) {
  double value = 0;
  text = Trim(text);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool IsContainer(std::string_view root) {
  if (ReadFile(root, "/.dockerenv").has_value()) return true;
  if (ReadFile(root, "/run/.containerenv").has_value()) return true;
  if (ReadFile(root, "/proc/1/environ").value_or("").find("container=") != std::string::npos) {
    return true;
  }
  const std::string groups = ReadFile(root, "/proc/1/cgroup").value_or("");
  constexpr std::array<std::string_view, 5> kRuntimes = {"docker", "kubepods", "containerd", "lxc",
                                                         "libpod"};
  return std::any_of(kRuntimes.begin(), kRuntimes.end(),
                     [&](std::string_view name) { return groups.find(name) != std::string::npos; });
}

std::vector<std::string> AllVariables() {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/. Fields are set apart by their
// lengths, so that none can run into the next.
class Digester {
 public:
  void Add(std::string_view field) {
    for (uint64_t length = field.size(), i = 0; i < 8; ++i) Mix((length >> (8 * i)) & 0xff);
    for (const char c : field) Mix(static_cast<uint8_t>(c));
  }
  std::string Hex() const { return fmt::format("{:016x}", state_); }

 private:
  void Mix(uint64_t byte) { state_ = (state_ ^ byte) * 0x100000001b3ULL; }

  uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::vector<std::string> BehaviourVariables(const std::vector<std::string>& variables) {
  std::vector<std::string> chosen;
  for (const std::string& variable : variables) {
    const std::string_view name = NameOf(variable);
    for (const std::string_view wanted : kBehaviour) {
      const bool matches =
          wanted.back() == '_' ? name.substr(0, wanted.size()) == wanted : name == wanted;
      if (matches) {
        chosen.push_back(variable);
        break;
      }
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

v1::Environment ReadEnvironment(const DeviceInfo* device, std::string_view root) {
  v1::Environment environment;
  const std::string cpuinfo = ReadFile(root, "/proc/cpuinfo").value_or("");
  environment.set_cpu_model(FieldOf(cpuinfo, "model name", ':'));
  environment.set_cpu_cores(static_cast<int32_t>(std::max(0L, ::sysconf(_SC_NPROCESSORS_ONLN))));
  if (device != nullptr) {
    environment.set_device_model(device->model);
    environment.set_threads(device->threads);
    for (const std::string& fact : device->facts) environment.add_device_facts(fact);
  }
  constexpr std::string_view kFrequency = "/sys/devices/system/cpu/cpu0/cpufreq/";
  environment.set_governor(std::string(
      Trim(ReadFile(root, fmt::format("{}scaling_governor", kFrequency)).value_or(""))));
  const double max_khz =
      NumberIn(ReadFile(root, fmt::format("{}cpuinfo_max_freq", kFrequency)).value_or(""));
  environment.set_cpu_max_mhz(max_khz / 1000);

  utsname system{};
  if (::uname(&system) == 0) {
    environment.set_os_kernel(fmt::format("{} {}", system.sysname, system.release));
    environment.set_hostname(system.nodename);
  }
  environment.set_os(FieldOf(ReadFile(root, "/etc/os-release").value_or(""), "PRETTY_NAME", '='));
  environment.set_container(IsContainer(root));

  const double memory_kib =
      NumberIn(FieldOf(ReadFile(root, "/proc/meminfo").value_or(""), "MemTotal", ':'));
  environment.set_memory_bytes(static_cast<int64_t>(memory_kib) * 1024);
  struct statvfs shm {};
  if (::statvfs(fmt::format("{}/dev/shm", root).c_str(), &shm) == 0) {
    environment.set_shm_bytes(static_cast<int64_t>(shm.f_blocks) *
                              static_cast<int64_t>(shm.f_frsize));
  }

  const BuildInfo build = GetBuildInfo();
  environment.set_lcab_version(std::string(build.version));
  environment.set_lcab_commit(std::string(build.commit));
  environment.set_compiler(std::string(build.compiler));
  std::string flags(build.flags);
  if (!build.sanitizers.empty()) flags += fmt::format(" sanitizers={}", build.sanitizers);
  environment.set_build_flags(std::move(flags));

  for (std::string& variable : BehaviourVariables(AllVariables())) {
    environment.add_variables(std::move(variable));
  }
  environment.set_digest(EnvironmentDigest(environment));
  return environment;
}

std::string EnvironmentDigest(const v1::Environment& environment) {
  Digester digester;
  digester.Add(environment.device_model());
  digester.Add(environment.cpu_model());
  digester.Add(fmt::format("{} {} {}", environment.cpu_cores(), environment.threads(),
                           environment.container()));
  digester.Add(environment.governor());
  digester.Add(fmt::format("{}", environment.cpu_max_mhz()));
  digester.Add(environment.os_kernel());
  digester.Add(environment.os());
  digester.Add(environment.compiler());
  digester.Add(environment.build_flags());
  for (const std::string& variable : environment.variables()) {
    const std::string_view name = NameOf(variable);
    if (std::find(kWhichDevice.begin(), kWhichDevice.end(), name) != kWhichDevice.end()) continue;
    digester.Add(variable);
  }
  // A CPU has none: digests that are stored stay as they are.
  for (const std::string& fact : environment.device_facts()) digester.Add(fact);
  return digester.Hex();
}

}  // namespace lcab::measurement
