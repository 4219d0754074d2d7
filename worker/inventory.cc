#include "worker/inventory.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/status/status.h"
#include "kernels/registry.h"
#include "suites/conversion.h"

namespace lcab::worker {
namespace {

// Whole CPUs that the cgroup's quota allows; `most` where there is none.
int QuotaCpus(int most) {
  std::ifstream self("/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    std::ifstream file("/sys/fs/cgroup" + line.substr(3) + "/cpu.max");
    double quota = 0;
    double period = 0;
    // "max 100000" where there is no quota: the first number fails.
    if (file >> quota >> period && quota > 0 && period > 0) {
      return std::clamp(static_cast<int>(std::ceil(quota / period)), 1, most);
    }
  }
  return most;
}

}  // namespace

absl::StatusOr<Inventory> DivideCpus(const CpuBudget& budget, int64_t slots,
                                     const v1::Environment& environment) {
  if (slots < 1 || slots > kMostCpuSlots) {
    return absl::InvalidArgumentError(
        fmt::format("{} CPU slots: a worker has 1 to {}", slots, kMostCpuSlots));
  }
  const int count = budget.usable;
  if (count < 1) return absl::FailedPreconditionError("this process may use no CPU");
  const bool bound = count == static_cast<int>(budget.cpus.size());
  const int each = std::max(1, count / static_cast<int>(slots));
  Inventory inventory;
  for (int slot = 0; slot < slots; ++slot) {
    DeviceSlot& device = inventory.slots.emplace_back();
    device.id = fmt::format("cpu:{}", slot);
    device.index = slot;
    device.threads = each;
    for (int n = 0; bound && n < each; ++n) {
      device.cpus.push_back(budget.cpus[(slot * each + n) % count]);
    }

    v1::Device& info = inventory.devices.emplace_back();
    info.set_id(device.id);
    info.set_kind(std::string(suites::Name(DeviceKind::kCpu)));
    info.set_model(environment.cpu_model());
    info.set_threads(each);
    info.set_memory_bytes(environment.memory_bytes() / slots);
  }
  if (slots > count) {
    inventory.notes.push_back(fmt::format(
        "{} CPU slots share {} CPUs: ranks on them slow each other down", slots, count));
  }
  if (!bound) {
    inventory.notes.push_back(
        fmt::format("a CPU quota of {} on {} CPUs: ranks are not bound, timings vary", count,
                    budget.cpus.size()));
  }
  return inventory;
}

CpuBudget UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CpuBudget budget;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) budget.cpus.push_back(cpu);
    }
  }
  // More CPUs than a cpu_set_t holds: the first ones are as good as any.
  if (budget.cpus.empty()) {
    for (int cpu = 0; cpu < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); ++cpu) {
      budget.cpus.push_back(cpu);
    }
  }
  budget.usable = QuotaCpus(static_cast<int>(budget.cpus.size()));
  return budget;
}

std::vector<v1::KernelInfo> Catalogue() {
  std::vector<v1::KernelInfo> kernels;
  for (const Kernel* kernel : BuiltinKernels().List(/*with_hidden=*/true)) {
    kernels.push_back(suites::Describe(*kernel));
  }
  return kernels;
}

}  // namespace lcab::worker
