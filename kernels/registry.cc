#include "kernels/registry.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "attention/parameters.h"
#include "fmt/format.h"
#include "kernels/register_all.h"

namespace lcab {

absl::Status KernelRegistry::Add(std::unique_ptr<Kernel> kernel) {
  std::string name = kernel->name();
  const auto [place, added] = kernels_.try_emplace(std::move(name), std::move(kernel));
  if (!added) {
    return absl::AlreadyExistsError(fmt::format(
        "a kernel called '{}' is registered already; give one another name", place->first));
  }
  return absl::OkStatus();
}

void KernelRegistry::AddBuiltin(std::unique_ptr<Kernel> kernel) {
  if (const absl::Status status = Add(std::move(kernel)); !status.ok()) {
    fmt::print(stderr, "{}\n", std::string(status.message()));
    std::abort();
  }
}

absl::StatusOr<const Kernel*> KernelRegistry::Find(std::string_view name) const {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second.get();
  std::vector<std::string> names;
  for (const Kernel* kernel : List()) names.push_back(kernel->name());
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(
      nearest.empty()
          ? fmt::format("there is no kernel '{}'; there are: {}", name, fmt::join(names, ", "))
          : fmt::format("there is no kernel '{}'; did you mean '{}'?", name, nearest));
}

std::vector<const Kernel*> KernelRegistry::List(bool with_hidden) const {
  std::vector<const Kernel*> kernels;
  for (const auto& [name, kernel] : kernels_) {
    if (with_hidden || !kernel->hidden()) kernels.push_back(kernel.get());
  }
  return kernels;
}

const KernelRegistry& BuiltinKernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry filled;
    RegisterBuiltinKernels(filled);
    return filled;
  }();
  return registry;
}

}  // namespace lcab
