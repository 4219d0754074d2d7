#include "kernels/registry.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::HasSubstr;

class NamedKernel : public Kernel {
 public:
  explicit NamedKernel(std::string name, bool hidden = false)
      : name_(std::move(name)), hidden_(hidden) {}
  std::string name() const override { return name_; }
  std::string description() const override { return "does nothing"; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  bool hidden() const override { return hidden_; }
  absl::Status Supports(const Problem&, Pass, const Options&, const DeviceInfo&) const override {
    return absl::UnimplementedError("it does nothing");
  }
  Traits GetTraits(const Options&) const override { return {}; }
  absl::StatusOr<Requirements> GetRequirements(const Problem&, Pass, const Options&,
                                               const DeviceInfo&) const override {
    return Requirements{};
  }
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem&, Pass, const Options&,
                                                          Device&) const override {
    return absl::UnimplementedError("it does nothing");
  }

 private:
  const std::string name_;
  const bool hidden_;
};

TEST(KernelRegistryTest, AKernelIsFoundByItsName) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("alpha")).ok());
  EXPECT_EQ(registry.Find("alpha").value()->name(), "alpha");
}

TEST(KernelRegistryTest, AnUnknownNameIsAnsweredWithTheNearest) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("cpu_tiled")).ok());
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("cpu_reference")).ok());
  const absl::Status status = registry.Find("cpu_tild").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean 'cpu_tiled'?"));
  EXPECT_THAT(std::string(registry.Find("zzzzzzzzzz").status().message()),
              HasSubstr("cpu_reference, cpu_tiled"));
}

TEST(KernelRegistryTest, ANameIsGivenOnce) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("alpha")).ok());
  EXPECT_EQ(registry.Add(std::make_unique<NamedKernel>("alpha")).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(KernelRegistryTest, HiddenKernelsRunByNameButStandInNoList) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("beta")).ok());
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("alpha")).ok());
  ASSERT_TRUE(registry.Add(std::make_unique<NamedKernel>("secret", /*hidden=*/true)).ok());
  EXPECT_TRUE(registry.Find("secret").ok());
  const auto listed = registry.List();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0]->name(), "alpha");
  EXPECT_EQ(listed[1]->name(), "beta");
  EXPECT_EQ(registry.List(/*with_hidden=*/true).size(), 3U);
  EXPECT_THAT(std::string(registry.Find("secrex").status().message()),
              testing::Not(HasSubstr("secret")));
}

TEST(KernelRegistryTest, TheBuiltInKernelsAreThere) {
  EXPECT_TRUE(BuiltinKernels().Find("cpu_reference").ok());
  EXPECT_TRUE(BuiltinKernels().Find("cpu_tiled").ok());
}

}  // namespace
}  // namespace lcab
