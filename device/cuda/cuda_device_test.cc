#include "device/cuda/cuda_device.h"

#include "gtest/gtest.h"

namespace lcab {
namespace {

TEST(ListCudaDevices, ThereAreDevicesOrThereIsAReason) {
  const CudaDevices found = ListCudaDevices();
  EXPECT_NE(found.devices.empty(), found.reason.empty()) << found.reason;
}

TEST(MakeCudaDevice, ADeviceThatIsNotThereIsRefusedWithTheReason) {
  const CudaDevices found = ListCudaDevices();
  const absl::Status status =
      MakeCudaDevice({.index = static_cast<int>(found.devices.size())}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(status.message().empty());
  EXPECT_TRUE(status.code() == absl::StatusCode::kUnimplemented ||
              status.code() == absl::StatusCode::kUnavailable)
      << status;
}

// Datasheets: A100 SXM 312 TFLOP/s (108 multiprocessors at 1410 MHz), H100 SXM 989.4 (132 at 1830
// MHz), L40S 362 (142 at 2520 MHz).
TEST(CudaPeakFlops, AreThoseOfTheDatasheets) {
  EXPECT_NEAR(CudaPeakFlops(80, 108, 1410e6) / 1e12, 312, 0.5);
  EXPECT_NEAR(CudaPeakFlops(90, 132, 1830e6) / 1e12, 989.4, 0.5);
  EXPECT_NEAR(CudaPeakFlops(89, 142, 2520e6) / 1e12, 366, 5);
}

TEST(CudaPeakFlops, AreUnknownForAnUnknownArchitecture) {
  EXPECT_EQ(CudaPeakFlops(75, 40, 1e9), 0);
}

}  // namespace
}  // namespace lcab
