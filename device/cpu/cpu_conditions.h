// What the machine says of its processor: model, memory, caches, clocks, heat. What it does not say
// is 0 or empty, never a guess.

#ifndef LCAB_DEVICE_CPU_CPU_CONDITIONS_H_
#define LCAB_DEVICE_CPU_CPU_CONDITIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace lcab {

// "AMD EPYC 9B14", from /proc/cpuinfo.
std::string CpuModel();

// Memory of the machine or of the control group, whichever is less, in bytes.
int64_t MachineMemoryBytes();

// Bytes of the last-level caches that the threads of this process may use, taken together: a large
// processor has one for each few of its cores. 32 MiB where the kernel does not tell. `root` is put
// before paths like /sys/devices, for tests.
int64_t LastLevelCacheBytes(std::span<const int> cpus, std::string_view root = "");
// The processors on which the caller may run; empty where the kernel does not tell.
std::vector<int> AllowedCpus();

// Cycles a second of the core that runs the caller, now: counted by a chain of additions, each of
// which takes one cycle and needs the one before. Takes about a millisecond.
double MeasureClockHz();

// Floating-point operations that one x86-64 core can do in one cycle, at most, by the flags that
// `cpuinfo` (the text of /proc/cpuinfo) gives its first processor; 0 where it gives none.
double FlopsPerCycle(std::string_view cpuinfo);

// No code on this processor can do more floating-point operations a second: operations a cycle of
// its widest instructions, times a clock that it cannot exceed, times threads. 0 where the
// instruction set is unknown.
double PeakFlopsBound(int threads);

// Reads conditions; remembers what it needs to see changes.
class CpuConditions {
 public:
  CpuConditions();
  Conditions Read();

 private:
  std::optional<int64_t> throttle_count_;  // of the package, at the last reading
};

}  // namespace lcab

#endif  // LCAB_DEVICE_CPU_CPU_CONDITIONS_H_
