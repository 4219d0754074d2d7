// Trials and their parts as people read them: parameters that have their default are left out.

#ifndef LCAB_SUITES_LABELS_H_
#define LCAB_SUITES_LABELS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "lcab/v1/problem.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::suites {

// "causal", "sliding_window_causal{window=256}", "causal_document#3" for the fourth draw.
std::string MaskLabel(const v1::Problem& problem);
// Of a kernel or strategy that this build does not know, all parameters are shown.
std::string KernelLabel(const v1::Component& kernel);
std::string StrategyLabel(const v1::Component& strategy);

// The parameters that differ from their defaults; all of them for what this build does not know.
// InvalidArgument where it cannot read a value.
absl::StatusOr<Options> ChangedMaskOptions(const v1::Component& mask);
absl::StatusOr<Options> ChangedKernelOptions(const v1::Component& kernel);
absl::StatusOr<Options> ChangedStrategyOptions(const v1::Component& strategy);

// The same as text, without the name: "window=256" or empty.
std::string MaskOptionsText(const v1::Component& mask);
std::string KernelOptionsText(const v1::Component& kernel);
std::string StrategyOptionsText(const v1::Component& strategy);

// "4K", "1000", "1M": as suites write it.
std::string SizeText(int64_t tokens);

// "cpu_tiled causal 4K forward", "ring_zigzag x 4 (cpu_tiled) causal 32K backward".
std::string TrialLabel(const v1::TrialSpec& trial);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_LABELS_H_
