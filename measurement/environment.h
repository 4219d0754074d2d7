// Where a figure was measured: what is stored with every result, and which part of it must be equal
// for two results to be comparable.

#ifndef LCAB_MEASUREMENT_ENVIRONMENT_H_
#define LCAB_MEASUREMENT_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::measurement {

// What the machine, the operating system and this build say of themselves. `device` may be null:
// then the fields about it stay empty. What cannot be learned stays empty or 0. Never fails.
//
// `root` is put before paths like /proc/cpuinfo, for tests.
v1::Environment ReadEnvironment(const DeviceInfo* device, std::string_view root = "");

// 16 hex digits, equal for environments whose results may be compared: device and its facts, CPU,
// cores, threads, governor and top frequency, operating system and its kernel, container or not,
// compiler, build flags and variables. Not part of it: host name, memory, variables that only say
// which of several devices are used, and our version and commit, which are what one compares.
std::string EnvironmentDigest(const v1::Environment& environment);

// Those of `variables` (NAME=value) that change how libraries or the loader behave, sorted.
std::vector<std::string> BehaviourVariables(const std::vector<std::string>& variables);

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_ENVIRONMENT_H_
