// The kernels that this program knows, by name.
//
// To add a kernel: one source with `void Register_<name>(KernelRegistry&)`, one test, and one line
// of CMake, `lcab_kernel(<name> ...)`, which generates the call in RegisterBuiltinKernels(). Static
// registrars are not used: archives drop them.

#ifndef LCAB_KERNELS_REGISTRY_H_
#define LCAB_KERNELS_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel.h"

namespace lcab {

class KernelRegistry {
 public:
  // AlreadyExists for a name that is taken.
  absl::Status Add(std::unique_ptr<Kernel> kernel);
  // For kernels that are linked in: a name that is taken is a mistake in the build, and ends it.
  void AddBuiltin(std::unique_ptr<Kernel> kernel);
  // NotFound names the nearest kernel.
  absl::StatusOr<const Kernel*> Find(std::string_view name) const;
  // In order of name; hidden ones only on request.
  std::vector<const Kernel*> List(bool with_hidden = false) const;

 private:
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

// A registry with every kernel that is linked in.
const KernelRegistry& BuiltinKernels();

}  // namespace lcab

#endif  // LCAB_KERNELS_REGISTRY_H_
