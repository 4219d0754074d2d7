#include "device/cuda/clock_stamp.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lcab::cuda {
namespace {

TEST(ReadClocks, EveryReadMultiprocessorRunsBetweenHundredMegahertzAndFiveGigahertz) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    GTEST_SKIP() << "needs a GPU: " << cudaGetErrorString(error);
  }
  int multiprocessors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
            cudaSuccess);
  const auto count = static_cast<size_t>(multiprocessors);
  std::vector<std::vector<ClockStamp>> readings;
  ClockStamp* stamps = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&stamps), count * sizeof(ClockStamp)), cudaSuccess);
  for (int reading = 0; reading < 2; ++reading) {
    ASSERT_EQ(cudaMemset(stamps, 0, count * sizeof(ClockStamp)), cudaSuccess);
    // The second only after the first has been fetched, some ten microseconds later.
    ASSERT_EQ(ReadClocks(stamps, multiprocessors, nullptr), cudaSuccess);
    std::vector<ClockStamp>& host = readings.emplace_back(count);
    ASSERT_EQ(cudaMemcpy(host.data(), stamps, count * sizeof(ClockStamp), cudaMemcpyDeviceToHost),
              cudaSuccess);
  }
  EXPECT_EQ(cudaFree(stamps), cudaSuccess);
  const double clock = ClockHz(readings[0], readings[1]);
  EXPECT_GT(clock, 1e8);
  EXPECT_LT(clock, 5e9);
}

}  // namespace
}  // namespace lcab::cuda
