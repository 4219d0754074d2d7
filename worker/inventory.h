// What a worker has to offer: its devices, and the kernels that run on them.

#ifndef LCAB_WORKER_INVENTORY_H_
#define LCAB_WORKER_INVENTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/trial.pb.h"
#include "worker/rank_state.h"

namespace lcab::worker {

struct Inventory {
  std::vector<DeviceSlot> slots;
  std::vector<v1::Device> devices;  // in the order of slots
  // What a person should know before trusting figures from here.
  std::vector<std::string> notes;
};

// What this process may use.
struct CpuBudget {
  std::vector<int> cpus;  // its affinity
  int usable = 0;         // at once: fewer where its cgroup has a quota
};
CpuBudget UsableCpus();

// Divides the budget into `slots` devices, "cpu:0" and up, with the same number of threads each
// and, unless a quota lets them wander, disjoint CPUs; what is left over stays idle. With more
// slots than CPUs they share, and a note says so. InvalidArgument for slots outside
// 1..kMostCpuSlots: each becomes a process of its own.
inline constexpr int64_t kMostCpuSlots = 4096;
absl::StatusOr<Inventory> DivideCpus(const CpuBudget& budget, int64_t slots,
                                     const v1::Environment& environment);

// The kernels that are built in, hidden ones marked.
std::vector<v1::KernelInfo> Catalogue();

}  // namespace lcab::worker

#endif  // LCAB_WORKER_INVENTORY_H_
