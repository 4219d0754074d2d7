#include "measurement/environment.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lcab_version.h"

namespace lcab::measurement {
namespace {

namespace fs = std::filesystem;

class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest()
      : root_(fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
  }
  ~EnvironmentTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  fs::path root_;
};

TEST_F(EnvironmentTest, ReadsWhatTheMachineSays) {
  Write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fine CPU 9000 @ 3GHz\nflags: fpu\n");
  Write("proc/meminfo", "MemTotal:       24640348 kB\nMemFree: 1 kB\n");
  Write("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  Write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3700000\n");
  const DeviceInfo device = {.model = "Fine CPU 9000", .threads = 3};
  const v1::Environment environment = ReadEnvironment(&device, root_.string());
  EXPECT_EQ(environment.cpu_model(), "Fine CPU 9000 @ 3GHz");
  EXPECT_EQ(environment.device_model(), "Fine CPU 9000");
  EXPECT_EQ(environment.threads(), 3);
  EXPECT_EQ(environment.memory_bytes(), 24640348LL * 1024);
  EXPECT_EQ(environment.os(), "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(environment.governor(), "performance");
  EXPECT_EQ(environment.cpu_max_mhz(), 3700);
  EXPECT_FALSE(environment.container());
  EXPECT_EQ(environment.digest(), EnvironmentDigest(environment));
}

TEST_F(EnvironmentTest, AMachineThatSaysNothingLeavesFieldsEmpty) {
  const v1::Environment environment = ReadEnvironment(nullptr, root_.string());
  EXPECT_EQ(environment.cpu_model(), "");
  EXPECT_EQ(environment.governor(), "");
  EXPECT_EQ(environment.cpu_max_mhz(), 0);
  EXPECT_EQ(environment.memory_bytes(), 0);
  EXPECT_EQ(environment.shm_bytes(), 0);
}

TEST_F(EnvironmentTest, ContainersAreRecognised) {
  Write("proc/1/cgroup", "0::/kubepods/besteffort/pod1234\n");
  EXPECT_TRUE(ReadEnvironment(nullptr, root_.string()).container());
}

TEST_F(EnvironmentTest, ThisMachineAndBuildAreNamed) {
  const v1::Environment environment = ReadEnvironment(nullptr);
  EXPECT_GE(environment.cpu_cores(), 1);
  EXPECT_GT(environment.memory_bytes(), 0);
  EXPECT_THAT(environment.os_kernel(), testing::StartsWith("Linux "));
  EXPECT_EQ(environment.lcab_version(), std::string(GetBuildInfo().version));
  EXPECT_EQ(environment.lcab_commit(), std::string(GetBuildInfo().commit));
  EXPECT_FALSE(environment.compiler().empty());
}

TEST(EnvironmentDigestTest, ChangesWithWhatMustMatchAndWithNothingElse) {
  v1::Environment base;
  base.set_cpu_model("a");
  base.set_threads(2);
  base.add_variables("OMP_NUM_THREADS=2");
  const auto digest_after = [&](const std::function<void(v1::Environment&)>& change) {
    v1::Environment changed = base;
    change(changed);
    return EnvironmentDigest(changed);
  };
  const std::string same = EnvironmentDigest(base);
  EXPECT_EQ(same.size(), 16U);
  EXPECT_NE(digest_after([](auto& e) { e.set_cpu_model("b"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.set_device_model("a"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.set_threads(4); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.add_device_facts("power_limit_watts=700"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.set_governor("powersave"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.set_os_kernel("Linux 7"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.set_build_flags("-O0"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.add_variables("NCCL_DEBUG=INFO"); }), same);
  EXPECT_EQ(digest_after([](auto& e) { e.add_variables("CUDA_VISIBLE_DEVICES=3"); }), same);
  EXPECT_NE(digest_after([](auto& e) { e.add_variables("CUDA_LAUNCH_BLOCKING=1"); }), same);
  EXPECT_EQ(digest_after([](auto& e) { e.set_hostname("other"); }), same);
  EXPECT_EQ(digest_after([](auto& e) { e.set_lcab_commit("0123456789ab"); }), same);
  EXPECT_EQ(digest_after([](auto& e) { e.set_memory_bytes(1); }), same);
}

TEST(BehaviourVariablesTest, KeepsThoseThatChangeBehaviourInOrder) {
  EXPECT_THAT(BehaviourVariables({"PATH=/bin", "OMP_NUM_THREADS=2", "HOME=/x", "LD_PRELOAD=a.so",
                                  "LD_PRELOADED=b", "NCCL_DEBUG=INFO", "EMPTY"}),
              testing::ElementsAre("LD_PRELOAD=a.so", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=2"));
}

}  // namespace
}  // namespace lcab::measurement
