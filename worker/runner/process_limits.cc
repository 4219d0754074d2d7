#include "worker/runner/process_limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "lcab_version.h"

namespace lcab::runner {
namespace {

// Writable memory of this process that counts towards RLIMIT_DATA, in bytes; 0 when unknown.
int64_t DataBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    constexpr std::string_view kName = "VmData:";
    if (line.compare(0, kName.size(), kName) == 0) {
      return std::strtoll(line.c_str() + kName.size(), nullptr, 10) * 1024;
    }
  }
  return 0;
}

const cpu_set_t& CpusAtStart() {
  static const cpu_set_t at_start = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  return at_start;
}

}  // namespace

absl::Status BindToCpus(std::span<const int32_t> cpus) {
  cpu_set_t set = CpusAtStart();
  if (!cpus.empty()) {
    CPU_ZERO(&set);
    for (const int32_t cpu : cpus) {
      if (cpu < 0 || cpu >= CPU_SETSIZE) {
        return absl::InvalidArgumentError(fmt::format("there is no CPU {}", cpu));
      }
      CPU_SET(static_cast<size_t>(cpu), &set);
    }
  }
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot run on the CPUs of this slot: {}", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status LimitMemory(int64_t bytes) {
  if (!GetBuildInfo().sanitizers.empty()) return absl::OkStatus();
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) {
    return absl::InternalError(fmt::format("getrlimit: {}", std::strerror(errno)));
  }
  limit.rlim_cur = limit.rlim_max;
  if (bytes > 0) {
    const auto wanted = static_cast<rlim_t>(DataBytes() + bytes);
    if (limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max) limit.rlim_cur = wanted;
  }
  if (setrlimit(RLIMIT_DATA, &limit) != 0) {
    return absl::InternalError(fmt::format("setrlimit: {}", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void OfferToMemoryKiller() {
  // Only root may lower it; anybody may raise it. Where that fails nothing is lost.
  std::ofstream("/proc/self/oom_score_adj") << 500;
}

}  // namespace lcab::runner
