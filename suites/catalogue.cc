#include "suites/catalogue.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/masks.h"
#include "suites/conversion.h"

namespace lcab::suites {

Catalogue::Catalogue(const KernelRegistry& kernels, const cp::StrategyRegistry& strategies) {
  for (const Kernel* kernel : kernels.List(/*with_hidden=*/true)) {
    kernels_.emplace(kernel->name(),
                     KernelEntry{.name = kernel->name(),
                                 .description = kernel->description(),
                                 .device_kind = std::string(Name(kernel->device_kind())),
                                 .parameters = kernel->parameters(),
                                 .hidden = kernel->hidden(),
                                 .builtin = kernel});
  }
  for (const cp::Strategy* strategy : strategies.List()) {
    strategies_.emplace(strategy->name(), strategy);
  }
}

Catalogue Catalogue::Builtin() { return {BuiltinKernels(), cp::BuiltinStrategies()}; }

absl::Status Catalogue::Add(const v1::KernelInfo& kernel) {
  if (kernels_.find(kernel.name()) != kernels_.end()) return absl::OkStatus();
  KernelEntry entry{.name = kernel.name(),
                    .description = kernel.description(),
                    .device_kind = kernel.device_kind(),
                    .hidden = kernel.hidden()};
  for (const v1::ParameterInfo& info : kernel.parameters()) {
    absl::StatusOr<Parameter> parameter = FromProto(info);
    if (!parameter.ok()) return parameter.status();
    entry.parameters.push_back(*std::move(parameter));
  }
  kernels_.emplace(kernel.name(), std::move(entry));
  return absl::OkStatus();
}

const KernelEntry* Catalogue::FindKernel(std::string_view name) const {
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : &found->second;
}

const cp::Strategy* Catalogue::FindStrategy(std::string_view name) const {
  const auto found = strategies_.find(name);
  return found == strategies_.end() ? nullptr : found->second;
}

std::vector<const KernelEntry*> Catalogue::Kernels() const {
  std::vector<const KernelEntry*> entries;
  for (const auto& [name, entry] : kernels_) {
    if (!entry.hidden) entries.push_back(&entry);
  }
  return entries;
}

std::vector<std::string> Catalogue::KernelNames() const {
  std::vector<std::string> names;
  for (const KernelEntry* entry : Kernels()) names.push_back(entry->name);
  return names;
}

std::vector<std::string> Catalogue::StrategyNames() const {
  std::vector<std::string> names;
  for (const auto& [name, strategy] : strategies_) names.push_back(name);
  return names;
}

std::vector<std::string> MaskNames() {
  std::vector<std::string> names;
  for (const MaskType& type : MaskTypes()) names.push_back(type.name);
  return names;
}

}  // namespace lcab::suites
