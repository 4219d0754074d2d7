#include "coordinator/expand_suite.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::HasSubstr;

v1::SubmitJobRequest MakeRequest(const std::string& kernel) {
  v1::SubmitJobRequest request;
  request.set_file_name("mine.yaml");
  request.set_suite_text(
      "name: mine\n"
      "matrices:\n"
      "  - shape: {q_heads: 2, kv_heads: 1, head_dim: 64, dtype: fp32}\n"
      "    seq_len: [128, 256]\n"
      "    mask: causal\n"
      "    kernel: " +
      kernel + "\n    pass: [forward, backward]\n");
  return request;
}

TEST(ExpandSuite, SuiteOfBuiltinKernelsBecomesCohorts) {
  const auto expansion = ExpandSuite(MakeRequest("cpu_reference"), {});
  ASSERT_TRUE(expansion.ok()) << expansion.status();
  EXPECT_EQ(expansion->suite_name, "mine");
  int trials = 0;
  for (const v1::CohortSpec& cohort : expansion->cohorts) trials += cohort.trials_size();
  EXPECT_EQ(trials, 4);
}

TEST(ExpandSuite, KernelsThatWorkersAnnouncedMayBeNamedAndOthersNot) {
  EXPECT_TRUE(ExpandSuite(MakeRequest("cpu_reference"), {}).ok());
  const auto unknown = ExpandSuite(MakeRequest("theirs"), {});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("mine.yaml:6"));
  v1::KernelInfo kernel;
  kernel.set_name("theirs");
  kernel.set_device_kind("cpu");
  kernel.set_description("A kernel of somebody else's build.");
  EXPECT_TRUE(ExpandSuite(MakeRequest("theirs"), {kernel}).ok())
      << ExpandSuite(MakeRequest("theirs"), {kernel}).status();
}

}  // namespace
}  // namespace lcab::coordinator
