#include "device/cuda/cuda_status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CudaStatus, SuccessIsOk) { EXPECT_TRUE(ToStatus(cudaSuccess, "to do it").ok()); }

TEST(CudaStatus, CodesTellMemoryAbilityMachineAndKernelApart) {
  EXPECT_EQ(ToStatus(cudaErrorMemoryAllocation, "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ToStatus(cudaErrorNoKernelImageForDevice, "x").code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ToStatus(cudaErrorECCUncorrectable, "x").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ToStatus(cudaErrorInvalidConfiguration, "x").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ToStatus(cudaErrorIllegalAddress, "x").code(), absl::StatusCode::kInternal);
}

TEST(CudaStatus, WordsNameWhatWasDoneTheErrorAndWhetherTheDeviceIsLost) {
  EXPECT_THAT(std::string(ToStatus(cudaErrorIllegalAddress, "to run forward").message()),
              AllOf(HasSubstr("to run forward"), HasSubstr("device error"),
                    HasSubstr("cudaErrorIllegalAddress")));
  EXPECT_THAT(std::string(ToStatus(cudaErrorInvalidConfiguration, "to launch").message()),
              AllOf(HasSubstr("to launch"), HasSubstr("cudaErrorInvalidConfiguration"),
                    Not(HasSubstr("device error"))));
}

}  // namespace
}  // namespace lcab::cuda
