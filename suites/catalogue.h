// What a suite may name: masks and strategies of this build, and kernels of this build or announced
// by workers.

#ifndef LCAB_SUITES_CATALOGUE_H_
#define LCAB_SUITES_CATALOGUE_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "attention/parameters.h"
#include "cp/strategy.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "lcab/v1/fleet.pb.h"

namespace lcab::suites {

struct KernelEntry {
  std::string name;
  std::string description;
  std::string device_kind;  // "cpu", "cuda"
  std::vector<Parameter> parameters;
  bool hidden = false;              // a test kernel: runs when named, stands in no list
  const Kernel* builtin = nullptr;  // nullptr: only some worker has it
};

// A value: copies are cheap enough for one a submission.
class Catalogue {
 public:
  // Both registries must outlive the catalogue.
  Catalogue(const KernelRegistry& kernels, const cp::StrategyRegistry& strategies);
  // Of everything that is linked in.
  static Catalogue Builtin();

  // Adds a kernel of a worker. A kernel of that name which is known already stays as it is.
  // InvalidArgument for an announcement that this build cannot read.
  absl::Status Add(const v1::KernelInfo& kernel);

  // nullptr when there is none of that name; hidden ones are found.
  const KernelEntry* FindKernel(std::string_view name) const;
  const cp::Strategy* FindStrategy(std::string_view name) const;

  // In order of name, without hidden ones.
  std::vector<const KernelEntry*> Kernels() const;
  std::vector<std::string> KernelNames() const;
  std::vector<std::string> StrategyNames() const;

  // What to say after "known: ..." to whoever names another kernel: where else there may be some.
  void set_other_kernels(std::string note) { other_kernels_ = std::move(note); }
  const std::string& other_kernels() const { return other_kernels_; }

 private:
  std::map<std::string, KernelEntry, std::less<>> kernels_;
  std::map<std::string, const cp::Strategy*, std::less<>> strategies_;
  std::string other_kernels_;
};

// The names of all masks, in the order of the docs.
std::vector<std::string> MaskNames();

}  // namespace lcab::suites

#endif  // LCAB_SUITES_CATALOGUE_H_
