// Kernels for tests of suites: they have names, parameters and limits, and compute nothing.

#ifndef LCAB_SUITES_FAKE_KERNELS_H_
#define LCAB_SUITES_FAKE_KERNELS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/parameters.h"
#include "cp/strategy.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "suites/catalogue.h"

namespace lcab::suites {

class FakeKernel : public Kernel {
 public:
  FakeKernel(std::string name, bool hidden, int64_t most_head_dim)
      : name_(std::move(name)), hidden_(hidden), most_head_dim_(most_head_dim) {}

  std::string name() const override { return name_; }
  std::string description() const override { return "computes nothing"; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  bool hidden() const override { return hidden_; }
  std::vector<Parameter> parameters() const override {
    return {{.name = "tile",
             .kind = ParameterKind::kInteger,
             .default_value = Value{int64_t{64}},
             .description = "rows of a tile",
             .minimum = 1,
             .maximum = 1024},
            {.name = "order",
             .kind = ParameterKind::kText,
             .default_value = Value{std::string("rows")},
             .description = "what is visited first",
             .choices = {"rows", "columns"}},
            {.name = "skip_empty",
             .kind = ParameterKind::kBool,
             .default_value = Value{true},
             .description = "leave empty tiles out"}};
  }
  absl::Status Supports(const Problem& problem, Pass, const Options&,
                        const DeviceInfo&) const override {
    if (problem.qk_head_dim <= most_head_dim_) return absl::OkStatus();
    return absl::UnimplementedError("head dims above 128 do not fit its tiles");
  }
  Traits GetTraits(const Options&) const override { return {.float32_out = true}; }
  absl::StatusOr<Requirements> GetRequirements(const Problem&, Pass, const Options&,
                                               const DeviceInfo&) const override {
    return Requirements{.workspace_bytes = 1000, .schedule_bytes = 24};
  }
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem&, Pass, const Options&,
                                                          Device&) const override {
    return absl::UnimplementedError("a fake");
  }

 private:
  std::string name_;
  bool hidden_;
  int64_t most_head_dim_;
};

// Kernels cpu_tiled, cpu_reference (head dims up to 128) and test_crash, which is hidden; the
// strategies of this build.
inline Catalogue FakeCatalogue() {
  static const KernelRegistry* const kernels = [] {
    auto* registry = new KernelRegistry;  // never deleted: catalogues point into it
    registry->Add(std::make_unique<FakeKernel>("cpu_tiled", false, 1024)).IgnoreError();
    registry->Add(std::make_unique<FakeKernel>("cpu_reference", false, 128)).IgnoreError();
    registry->Add(std::make_unique<FakeKernel>("test_crash", true, 1024)).IgnoreError();
    return registry;
  }();
  return {*kernels, cp::BuiltinStrategies()};
}

}  // namespace lcab::suites

#endif  // LCAB_SUITES_FAKE_KERNELS_H_
