#include "device/cpu/cpu_conditions.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

namespace lcab {
namespace {

constexpr std::string_view kCpu0 = "/sys/devices/system/cpu/cpu0";

std::optional<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<int64_t> ReadInteger(const std::string& path) {
  const std::optional<std::string> line = FirstLine(path);
  if (!line) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), value);
  if (error != std::errc{} || end == line->data()) return std::nullopt;
  return value;
}

// A file of cpufreq, which counts in kHz.
double ReadFrequencyHz(std::string_view file) {
  return 1e3 *
         static_cast<double>(ReadInteger(fmt::format("{}/cpufreq/{}", kCpu0, file)).value_or(0));
}

std::optional<int64_t> ReadThrottleCount() {
  return ReadInteger(fmt::format("{}/thermal_throttle/package_throttle_count", kCpu0));
}

double ReadTemperatureCelsius() {
  constexpr int kMostZones = 64;
  for (int zone = 0; zone < kMostZones; ++zone) {
    const std::string folder = fmt::format("/sys/class/thermal/thermal_zone{}", zone);
    const std::optional<std::string> type = FirstLine(folder + "/type");
    if (!type) break;
    if (*type == "x86_pkg_temp" || *type == "cpu-thermal" || *type == "cpu_thermal") {
      return 1e-3 * static_cast<double>(ReadInteger(folder + "/temp").value_or(0));
    }
  }
  return 0;
}

struct Cache {
  int64_t bytes = 0;
  std::string shared_by;  // a list of processors
};

// The cache of the highest level that the processor has; of 0 bytes where the kernel names none.
Cache LastCacheOf(int cpu, std::string_view root) {
  constexpr int kMostCaches = 16;
  Cache last;
  int64_t highest = 0;
  for (int index = 0; index < kMostCaches; ++index) {
    const std::string folder =
        fmt::format("{}/sys/devices/system/cpu/cpu{}/cache/index{}", root, cpu, index);
    const std::optional<int64_t> level = ReadInteger(folder + "/level");
    if (!level) break;
    if (*level <= highest) continue;
    // "32768K"
    const std::optional<int64_t> kibibytes = ReadInteger(folder + "/size");
    const std::optional<std::string> shared_by = FirstLine(folder + "/shared_cpu_list");
    if (!kibibytes || !shared_by) continue;
    highest = *level;
    last = {*kibibytes * 1024, *shared_by};
  }
  return last;
}

// `rounds` times 16 dependent additions of registers. (Additions of constants are no measure: some
// processors resolve chains of them without executing them.)
void AddInChain(int64_t rounds) {
#if defined(__x86_64__)
  uint64_t sum = 0, step = 1;
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
        "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
        "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
        "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0"
        : "+r"(sum)
        : "r"(step)
        : "cc");
  }
#elif defined(__aarch64__)
  uint64_t sum = 0, step = 1;
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\t"
        "add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\t"
        "add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\t"
        "add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1"
        : "+r"(sum)
        : "r"(step));
  }
#else
  (void)rounds;
#endif
}

}  // namespace

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

int64_t MachineMemoryBytes() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  if (bytes <= 0) bytes = std::numeric_limits<int64_t>::max();
  for (const char* limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const std::optional<int64_t> value = ReadInteger(limit); value && *value > 0) {
      bytes = std::min(bytes, *value);
    }
  }
  return bytes;
}

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

int64_t LastLevelCacheBytes(std::span<const int> cpus, std::string_view root) {
  std::map<std::string, int64_t> caches;  // by the processors that share one
  for (const int cpu : cpus) {
    const Cache last = LastCacheOf(cpu, root);
    if (last.bytes > 0) caches[last.shared_by] = last.bytes;
  }
  int64_t bytes = 0;
  for (const auto& [shared_by, size] : caches) bytes += size;
  return bytes > 0 ? bytes : int64_t{32} << 20;
}

double MeasureClockHz() {
#if defined(__x86_64__) || defined(__aarch64__)
  // Interruptions only ever make a burst slower, so the fastest of several is the clock.
  constexpr int64_t kRounds = 12'500;  // 200,000 cycles: under 0.1 ms
  constexpr int kBursts = 12;
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const auto start = std::chrono::steady_clock::now();
    AddInChain(kRounds);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (seconds.count() > 0) best = std::max(best, 16 * kRounds / seconds.count());
  }
  return best;
#else
  return 0;
#endif
}

double FlopsPerCycle(std::string_view cpuinfo) {
  constexpr std::string_view kKey = "\nflags";
  const std::string text = fmt::format("\n{}", cpuinfo);
  const size_t begin = text.find(kKey);
  if (begin == std::string::npos) return 0;
  const size_t end = text.find('\n', begin + kKey.size());
  const std::string flags = text.substr(begin, end - begin) + " ";
  const auto has = [&](std::string_view flag) {
    return flags.find(fmt::format(" {} ", flag)) != std::string::npos;
  };
  // A multiply-add is two operations. Two of the widest vector are done in a cycle; dot products of
  // pairs of bf16 double that. A matrix unit multiplies 16 x 32 by 32 x 16 bf16 in 16 cycles, 512
  // multiply-adds a cycle (Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter
  // "Intel AMX": TDPBF16PS has a throughput of 16 cycles).
  if (has("amx_bf16")) return 1024;
  if (has("avx512_bf16")) return 128;
  if (has("avx512f")) return 64;
  // Without fused ones a multiplication and an addition are done in its place, of half as many
  // operations: a bound all the same, as is that of SSE below.
  if (has("avx")) return 32;
  return 16;
}

double PeakFlopsBound(int threads) {
  double flops_per_cycle = 0;
#if defined(__x86_64__)
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream cpuinfo;
  cpuinfo << file.rdbuf();
  flops_per_cycle = FlopsPerCycle(cpuinfo.str());
#endif
  // A measured clock may be below what the processor reaches when it is cooler or less busy; no
  // processor gains half again.
  const double clock = std::max(ReadFrequencyHz("cpuinfo_max_freq"), 1.5 * MeasureClockHz());
  return flops_per_cycle * clock * threads;
}

CpuConditions::CpuConditions() : throttle_count_(ReadThrottleCount()) {}

Conditions CpuConditions::Read() {
  Conditions conditions;
  conditions.clock_hz = MeasureClockHz();
  conditions.expected_clock_hz = ReadFrequencyHz("base_frequency");
  conditions.temperature_celsius = ReadTemperatureCelsius();
  const std::optional<int64_t> count = ReadThrottleCount();
  if (count && throttle_count_ && *count > *throttle_count_) {
    conditions.throttled = true;
    conditions.reasons =
        fmt::format("the package was throttled {} times for heat", *count - *throttle_count_);
  }
  throttle_count_ = count;
  return conditions;
}

}  // namespace lcab
